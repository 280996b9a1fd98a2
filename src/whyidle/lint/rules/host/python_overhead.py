from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import function_around
from whyidle.lint.events import Called, Event, Looped
from whyidle.lint.job import Job
from whyidle.lint.often import rhythm

# The number of items of something that is called like a batch: not layers, levels or time steps.
_BATCH = r"(x|y|xs|ys|\w*(images?|imgs?|inputs?|batch|targets?|labels?|data|samples?|outputs?|preds?|out|ids|tokens))"
_SIZE = re.compile(rf"{_BATCH}\.(size\(0\)|shape\[0\])|len\({_BATCH}\)|batch_size|bsz?|B")
_CUTS = {"chunk", "split", "unbind", "tensor_split", "list", "tuple", "sorted"}


class PythonOverhead(Check):
    """A Python loop goes over the items of a batch on the GPU and works on one after the other.

    ## Why it costs time
    Each operation on one item is a launch of its own: 5 to 10 us on the host for a kernel that may take two. For a
    batch of 256 that is 256 times as many launches as for the whole batch at once, and the GPU waits for the host.

    ## How we know
    The loop runs in each step, counts to the size of the batch, and what it indexes by its counter is a tensor on
    the GPU with which it computes. A loop that hands something from one round to the next (a recurrent network by
    hand) cannot be done at once, and is not reported.

    ## When to ignore it
    Batches of a few large items, or items of different sizes that cannot be padded.
    """

    rule = "host.launch_bound"
    cost = "launch"
    sees = (Looped, Called)

    def __init__(self) -> None:
        self.loops: list[tuple[Looped, ast.For, str]] = []
        self.launches: list[Called] = []

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not event.where.hot or job.gpu == "no":
            return
        if isinstance(event, Called) and event.where.inner and event.result.on_device:
            self.launches.append(event)
        if isinstance(event, Looped) and isinstance(event.node, ast.For) and event.where.inner:
            counter = _counter(event)
            if counter and not _hands_on(event.node) and not _is_over_list(event):
                self.loops.append((event, event.node, counter))
        yield from ()

    def end(self, job: Job) -> Iterator[Hit]:
        for event, loop, counter in self.loops:
            body = {id(node) for statement in loop.body for node in ast.walk(statement)}
            if any(id(call.node) in body and any(_takes_item(call.node, counter)) for call in self.launches):
                yield Hit(
                    loop,
                    f"The loop over `{ast.unparse(loop.iter)}` works on the GPU item by item {rhythm(event)}: "
                    "many small launches.",
                    "low",
                    0.5,
                    event.source,
                    title="compute the whole batch at once",
                    change="out = function(x)  # batched; else torch.func.vmap(function)(x)",
                    risk="items of different sizes have to be padded and masked",
                )

    cases = (
        Invalid(
            "a loss item by item",
            """\
import torch
from torch.utils.data import DataLoader

def train(model, dataset, optimizer):
    model = model.cuda()
    loader = DataLoader(dataset, batch_size=256, num_workers=8, pin_memory=True)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        out = model(x)
        losses = []
        for i in range(x.size(0)):  # !
            losses.append(torch.nn.functional.mse_loss(out[i], y[i]))
        torch.stack(losses).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "an augmentation item by item",
            """\
import torch

def augment(images):
    for i in range(len(images)):  # !
        images[i] = torch.flip(images[i], dims=(-1,))
    return images

def train(model, loader, optimizer):
    for images, labels in loader:
        images, labels = images.to("cuda"), labels.to("cuda")
        loss = torch.nn.functional.cross_entropy(model(augment(images)), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "a recurrent network by hand: each round needs the one before",
            """\
import torch

class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.cell = torch.nn.GRUCell(size, size)

    def forward(self, x):
        state = torch.zeros(x.shape[1], x.shape[2], device=x.device)
        for t in range(x.shape[0]):
            state = self.cell(x[t], state)
        return state

def train(loader, optimizer):
    model = Net(64).cuda()
    for x in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "over layers, and over lists of Python",
            """\
import torch

def train(model, loader, optimizer, names):
    for images, labels in loader:
        outputs = model(images.cuda())
        loss = 0
        for level in range(4):
            loss = loss + torch.nn.functional.cross_entropy(outputs[level], labels.cuda())
        for i in range(len(names)):
            names[i] = names[i].strip()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "on the host, in the data set",
            """\
import torch

class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = torch.tensor(rows)
        for i in range(len(self.rows)):
            self.rows[i] = self.rows[i] - self.rows[i].mean()

    def __getitem__(self, index):
        return self.rows[index]
""",
        ),
    )


def _counter(event: Looped) -> str:
    """Return the name that counts to the size of a batch: `i` of `for i in range(x.size(0))`; "" if it does not."""
    loop = event.node
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or not isinstance(loop.iter, ast.Call):
        return ""
    call = loop.iter
    if ast.unparse(call.func) != "range" or len(call.args) != 1:
        return ""
    return loop.target.id if _SIZE.fullmatch(ast.unparse(call.args[0])) else ""


def _is_over_list(event: Looped) -> bool:
    """Say whether the loop counts to the length of a list: of parts that a tensor was cut into, of outputs."""
    loop, function = event.node, function_around(event.source, event.node)
    measured = (
        {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)} if isinstance(loop, ast.For) else set()
    )
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Assign) and any(
            isinstance(name, ast.Name) and name.id in measured for name in node.targets
        ):
            value = node.value
            called = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
            if isinstance(value, ast.List | ast.ListComp | ast.Tuple) or called in _CUTS:
                return True
    return False


def _hands_on(loop: ast.For) -> bool:
    """Say whether a name is read in the loop before it is set: what one round leaves to the next."""
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    first: dict[str, ast.Assign] = {}
    for assign in sorted((node for node in nodes if isinstance(node, ast.Assign)), key=lambda node: node.lineno):
        for target in assign.targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    first.setdefault(name.id, assign)
    return any(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in first
        and node.lineno <= first[node.id].lineno
        for node in nodes
    )


def _takes_item(call: ast.Call, counter: str) -> Iterator[bool]:
    """Yield whether each subscript below a call takes the item that the counter stands at: x[i], x[i, 0]."""
    for node in ast.walk(call):
        if isinstance(node, ast.Subscript):
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            yield isinstance(first, ast.Name) and first.id == counter
