from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around
from whyidle.lint.events import Called, Event, Indexed, Tested
from whyidle.lint.job import Job
from whyidle.lint.often import rhythm, severity

# What TorchDynamo of PyTorch 2.13 cannot put into a graph; each was tried with torch._dynamo.explain.
_READS = {".item", ".tolist"}
_CASTS = {"float", "int", "bool"}
_SIZED_BY_VALUES = {"nonzero", "unique", "masked_select", "argwhere", "bincount"}
_HOST = {
    "print",
    "open",
    "breakpoint",
    "gc.collect",
    "time.time",
    "time.perf_counter",
    "time.monotonic",
    "time.sleep",
    "torch.save",
    "torch.manual_seed",
    "torch._dynamo.graph_break",
}
_LOGS = {"debug", "info", "warning", "error", "critical", "exception"}
_TESTS = {"if", "while", "not", "and", "or", "else"}


class GraphBreak(Check):
    """Code that `torch.compile` cannot put into a graph stands in a function that is compiled.

    ## Why it costs time
    The graph ends there: Python goes on alone, and another graph begins behind it. Kernels are not fused across the
    gap, CUDA graphs do not span it, and where a value is read the GPU runs dry as well.

    ## How we know
    The line stands in a function below `@torch.compile`, or in one that a compiled function or model calls, and it
    reads a tensor's value, branches on one, makes a tensor whose size depends on values, prints, logs or asks the time.
    An `assert`, an f-string, `max`, `.cpu()` and `.numpy()` break nothing, and are not reported. Versions differ:
    `TORCH_LOGS=graph_breaks` tells for yours.

    ## When to ignore it
    The break is at the end of the function, or between two parts that are large anyway.
    """

    cost = "drain"
    sees = (Called, Tested, Indexed)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        where = event.where
        if not where.compiled or not where.reachable or where.guard == "flag":
            return
        settings = " ".join((*job.settings, job.source.text, event.source.text))
        scalars, sizes = "capture_scalar_outputs" in settings, "capture_dynamic_output_shape_ops" in settings
        why = ""
        if isinstance(event, Tested) and event.how in _TESTS and event.value.on_device and event.value.boolean:
            why = "branches on a tensor's value"
        elif isinstance(event, Indexed) and event.index.boolean and not event.stored and not sizes:
            why = "makes a tensor whose size depends on values"
        elif isinstance(event, Called):
            why = _of_call(event, scalars=scalars, sizes=sizes)
        if not why:
            return
        assert isinstance(event.node, ast.expr)
        reads = "value" in why
        branch = _in_branch(event)
        yield Hit(
            event.node,
            f"`{_short(event.node)}` {why} in compiled code: the graph ends there {rhythm(event)}, and another begins.",
            severity(where) if reads and not branch else "low",
            0.5 if branch else 0.7 if where.phase == "maybe" else 0.9,
            event.source,
            title="keep values on the GPU, and take the rest out of the compiled function",
            change="return hits.sum(), mask.sum()  # tensors; read and divide them after the compiled function, rarely"
            if reads
            else "# call it outside of the compiled function; TORCH_LOGS=graph_breaks names each break",
        )

    cases = (
        Invalid(
            "numbers read for a metric",
            """\
import torch

@torch.compile
def accuracy(logits, target, mask):
    hits = (logits.argmax(-1) == target) * mask
    return hits.sum().item() / mask.sum().item()  # !

def train(model, loader, optimizer):
    for x, y, mask in loader:
        x, y, mask = x.cuda(), y.cuda(), mask.cuda()
        logits = model(x)
        torch.nn.functional.cross_entropy(logits, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        acc = accuracy(logits, y, mask)
""",
        ),
        Invalid(
            "a compiled model that prints, and branches on a value",
            """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1024, 1024)

    def forward(self, x):
        h = self.layer(x)
        print("hidden", h.shape)  # !
        if h.abs().max() > 1e4:  # !
            h = h / h.abs().max()
        return h[h > 0].mean()  # !

def train(loader):
    model = torch.compile(Net().cuda())
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for x in loader:
        model(x.cuda(non_blocking=True)).backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "tensors are returned, and read outside now and then",
            """\
import torch

@torch.compile
def step(model, x, y):
    out = model(x)
    assert out.shape[0] == y.shape[0]
    loss = torch.nn.functional.cross_entropy(out, y)
    return loss, torch.where(out.argmax(-1) == y, 1.0, 0.0).sum()

def train(model, loader, optimizer):
    for n, (x, y) in enumerate(loader):
        loss, hits = step(model, x.cuda(), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if n % 100 == 0:
            print(loss.item(), hits.item())
""",
        ),
        Valid(
            "branches on shapes and settings, which are known when it is compiled",
            """\
import torch

class Block(torch.nn.Module):
    def __init__(self, dim, causal=True):
        super().__init__()
        self.proj = torch.nn.Linear(dim, dim)
        self.causal = causal

    @torch.compile
    def forward(self, x, mask=None):
        if x.shape[1] > 4096 or mask is not None:
            x = x * 0.5
        if self.causal and self.training:
            x = x.tril()
        return self.proj(x)
""",
        ),
        Valid(
            "in a function that is kept out of the graph, and in code that is not compiled",
            """\
import torch

@torch.compiler.disable
def report(loss):
    print(loss.item())

@torch.compile
def forward(model, x):
    loss = model(x).mean()
    report(loss)
    return loss

def check(x):
    if (x > 1e4).any():
        print(x.max().item())
""",
        ),
    )


def _of_call(event: Called, *, scalars: bool, sizes: bool) -> str:
    """Return why a call cannot be put into a graph; "" if it can."""
    last = event.name.rpartition(".")[2]
    if event.name in _READS and not scalars and (event.receiver is None or event.receiver.kind != "plain"):
        return "reads a tensor's value"
    if event.name in _CASTS and not scalars and event.args and event.args[0].on_device:
        return "reads a tensor's value"
    if event.name in _HOST:
        return "is no work for a GPU, and stands"
    if last in _LOGS and (
        event.name.startswith("logging.") or event.receiver_text.lower().strip("_") in {"log", "logger"}
    ):
        return "is no work for a GPU, and stands"
    if last in _SIZED_BY_VALUES and event.name in {f".{last}", f"torch.{last}"} and not sizes:
        on_device = event.receiver.on_device if event.receiver is not None else any(a.on_device for a in event.args)
        return "makes a tensor whose size depends on values" if on_device else ""
    return ""


def _in_branch(event: Event) -> bool:
    """Say whether a condition of the function decides about it: often one on shapes, known when it is compiled."""
    chain = around(event.source, event.node)
    start = max((number for number, part in enumerate(chain) if isinstance(part, ast.FunctionDef)), default=0)
    inside = (*chain[start:], event.node)
    return any(isinstance(part, ast.If) and below is not part.test for part, below in pairwise(inside))


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."
