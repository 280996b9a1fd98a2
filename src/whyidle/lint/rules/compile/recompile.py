from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.enclosing import around
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.nodes import every
from whyidle.lint.often import each_step, rhythm
from whyidle.lint.source import Source

_JOINS = {"cat", "concat", "concatenate", "hstack", "vstack", "pad"}
_GRAPHS = {"reduce-overhead", "max-autotune"}  # modes that capture CUDA graphs: one per shape
_FORGETS = {"torch._dynamo.reset", "torch.compiler.reset"}


@dataclass(frozen=True)
class _Compiled:
    """A function or model that is compiled for each shape anew."""

    text: str  # as the source calls it: "fwd", "self.model"
    source: Source
    node: ast.AST


class Recompile(Check):
    """A compiled function gets another shape or another number each time that it is called.

    ## Why it costs time
    A graph is made for the shapes that it was given. `torch.compile` makes them variable once it sees a second
    one, but not with `dynamic=False`, and CUDA graphs (`mode="reduce-overhead"`) are captured for each shape anew:
    seconds for a compilation, and the GPU idle meanwhile. After 8 compilations of a function PyTorch gives up,
    and runs it as it is.

    ## How we know
    In a loop, a tensor grows (`ids = torch.cat([ids, new], 1)`) and as a whole goes into a function compiled in one
    of these two ways. Or a compiled model counts its calls in an attribute, each value of which needs its own graph.
    Or compiled code is thrown away in each step.

    ## When to ignore it
    The loop is short, or its shapes come back: then each is compiled once.
    """

    cost = "pause"
    sees = (Called,)
    calls = ends({"torch.compile", *_FORGETS})

    def __init__(self) -> None:
        self.compiled: dict[str, _Compiled] = {}

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called):
            return
        if event.name == "torch.compile" and _is_for_each_shape(event.node) and isinstance(event.statement, ast.Assign):
            for target in event.statement.targets:
                text = ast.unparse(target)
                self.compiled[text] = _Compiled(text, event.source, event.node)
        if event.name in _FORGETS and each_step(event.where):
            yield Hit(
                event.node,
                f"`{ast.unparse(event.node)}` throws compiled code away {rhythm(event)}, and it is compiled anew.",
                "medium",
                0.9,
                event.source,
                title="call it once, not in the loop",
                change=f"# without {ast.unparse(event.node)} in the loop",
            )

    def end(self, job: Job) -> Iterator[Hit]:
        if "torch.compile" not in job.source.text:
            return
        for function in every(job.source, ast.FunctionDef):
            if any(isinstance(one, ast.Call) and _is_for_each_shape(one) for one in function.decorator_list):
                self.compiled[function.name] = _Compiled(function.name, job.source, function)
        for compiled in self.compiled.values():
            if compiled.source is job.source:
                yield from _growing(compiled)
        yield from _counting(job)

    cases = (
        Invalid(
            "a mask that grows with each token, and CUDA graphs",
            """\
import torch

@torch.inference_mode()
def generate(model, ids, mask, new_tokens):
    forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
    cache = model.static_cache(ids.size(0), 1024)
    for _ in range(new_tokens):
        out = forward(ids[:, -1:], attention_mask=mask, cache=cache)  # !
        token = out.logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, token], 1)
        mask = torch.cat([mask, mask.new_ones(mask.size(0), 1)], 1)  # !
    return ids
""",
        ),
        Invalid(
            "a compiled model that counts its calls",
            """\
import torch

class Net(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layer = torch.nn.Linear(dim, dim)
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # !
        return self.layer(x) * min(1.0, self.calls / 1000)

def train(loader):
    model = torch.compile(Net(512).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "shapes that become variable by themselves",
            """\
import torch

@torch.inference_mode()
def generate(model, ids, new_tokens):
    model = torch.compile(model)
    for _ in range(new_tokens):
        token = model(ids).logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, token], 1)
    return ids
""",
        ),
        Valid(
            "one token and a cache of fixed size",
            """\
import torch

@torch.inference_mode()
def generate(model, ids, new_tokens):
    forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
    token, positions = ids[:, -1:], torch.arange(ids.size(1), device="cuda")
    for _ in range(new_tokens):
        token = forward(token, positions[-1:]).argmax(-1)
        ids = torch.cat([ids, token], 1)
    return ids
""",
        ),
        Valid(
            "a count that is a tensor, and one in a model that is not compiled",
            """\
import torch

class Net(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layer = torch.nn.Linear(dim, dim)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        return self.layer(x)

class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x

def train(loader):
    model, plain = torch.compile(Net(512).cuda()), Plain()
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        model(plain(x.cuda())).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _is_for_each_shape(call: ast.Call) -> bool:
    """Say whether torch.compile is called so that each shape is compiled or captured anew."""
    if not ast.unparse(call.func).endswith("compile"):
        return False
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    mode, dynamic = given.get("mode"), given.get("dynamic")
    graphs = isinstance(mode, ast.Constant) and mode.value in _GRAPHS
    return graphs or (isinstance(dynamic, ast.Constant) and dynamic.value is False)


def _growing(compiled: _Compiled) -> Iterator[Hit]:
    """Yield the calls that get a tensor which the same loop makes larger, and where it does so."""
    calls = [node for node in every(compiled.source, ast.Call) if ast.unparse(node.func) == compiled.text]
    for call in calls:
        loops = [part for part in around(compiled.source, call) if isinstance(part, ast.For | ast.While)]
        given = {ast.unparse(value) for value in (*call.args, *(keyword.value for keyword in call.keywords))}
        grown = (
            [one for one in ast.walk(loops[-1]) if isinstance(one, ast.Assign) and _grows(one, given)] if loops else []
        )
        for node in (call, *grown) if grown else ():
            yield Hit(
                node,
                f"`{ast.unparse(grown[0].targets[0])}` grows in each round of the loop, and `{compiled.text}` is "
                "compiled or captured anew for each size.",
                "medium",
                0.7,
                compiled.source,
                also=tuple(one for one in (call, *grown) if one is not node),
                title="make it once in its full size, and fill it",
                change="mask = torch.zeros(batch, longest, device=device, dtype=torch.bool)  # before the loop\n"
                "mask[:, :length] = True",
                risk="positions that are not filled yet have to be masked",
            )


def _grows(node: ast.Assign, given: set[str]) -> bool:
    """Say whether a statement puts something to the end of a tensor which is given away: x = torch.cat([x, y])."""
    if not isinstance(node.value, ast.Call):
        return False
    target, call = ast.unparse(node.targets[0]), node.value
    if target not in given or ast.unparse(call.func).rpartition(".")[2] not in _JOINS or not call.args:
        return False
    first = call.args[0]
    parts = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
    return any(ast.unparse(part) == target for part in parts)


def _counting(job: Job) -> Iterator[Hit]:
    """Yield the attributes in which compiled modules count their calls."""
    compiled = {
        id(event.statement) for event in job.events if event.where.compiled and isinstance(event.statement, ast.stmt)
    }
    for cls in every(job.source, ast.ClassDef):
        methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
        forward, start = methods.get("forward"), methods.get("__init__")
        if forward is None or start is None or not any(id(node) in compiled for node in ast.walk(forward)):
            continue
        numbers = {
            ast.unparse(node.targets[0])
            for node in ast.walk(start)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and type(node.value.value) is int
        }
        for node in forward.body:
            if isinstance(node, ast.AugAssign) and ast.unparse(node.target) in numbers:
                text = ast.unparse(node.target)
                yield Hit(
                    node,
                    f"`{text}` is a number of Python that changes with each call of the compiled model, which is "
                    "compiled anew for each.",
                    "medium",
                    0.7,
                    job.source,
                    title="count in a tensor",
                    change=f'self.register_buffer("{text.removeprefix("self.")}", torch.zeros((), dtype=torch.long))',
                    risk="a buffer is saved with the model, unless persistent=False",
                )
