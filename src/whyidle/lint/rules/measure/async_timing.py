from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around, function_of
from whyidle.lint.events import Called, Event, Indexed, Looped, Shown, Tested
from whyidle.lint.job import Job
from whyidle.lint.nodes import below
from whyidle.lint.where import Where

CLOCKS = {
    "time.time", "time.perf_counter", "time.monotonic", "time.time_ns", "time.perf_counter_ns", "time.monotonic_ns",
    "timeit.default_timer",
}  # fmt: skip
# Calls after which the GPU has done what was queued before them; `generate` looks at every token.
WAITS = {
    ".item", ".tolist", ".cpu", ".numpy", ".synchronize", ".elapsed_time", ".generate", ".barrier", ".wait",
    ".wait_for_everyone", ".result", "float", "int", "bool", "torch.distributed.barrier", "torch.cuda.empty_cache",
    "torch.allclose", "torch.equal", "torch.nonzero", "torch.unique", "torch.masked_select", ".nonzero", ".unique",
}  # fmt: skip
NEAR = 12  # lines: outside of loops, what is timed is one thing (judgement), rather than a part of the program
# Calls that hand on a tensor and compute nothing.
PASSES_ON = {".to", ".cuda", ".detach", *vars(builtins)}


@dataclass(frozen=True, slots=True)
class Reading:
    """A clock that is read: which event it was, the loop around it, and the name that keeps it."""

    index: int
    event: Called
    path: tuple[ast.AST, ...]

    @property
    def loop(self) -> ast.AST | None:
        """Return the innermost loop around it within its function."""
        for node in reversed(self.path):
            if isinstance(node, ast.For | ast.While | ast.AsyncFor):
                return node
            if node is function_of(self.path):
                return None
        return None

    @property
    def kept_as(self) -> str:
        """Return the name that it is assigned to, as the source spells it; "" where it is not."""
        parent = self.path[-1]
        return ast.unparse(parent.targets[0]) if isinstance(parent, ast.Assign) else ""

    @property
    def since(self) -> str:
        """Return the name of the earlier reading that is taken off this one; "" where none is."""
        parent = self.path[-1]
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.left is self.event.node:
            return ast.unparse(parent.right)
        kept = self.kept_as
        for node in below(function_of(self.path)) if kept else ():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and ast.unparse(node.left) == kept:
                return ast.unparse(node.right)
        return ""


class AsyncTiming(Check):
    """A host clock is read before and after work of the GPU, and nothing in between waits for that work.

    ## Why it costs time
    It costs none; it misleads. Calls return as soon as their kernels are queued, so that the difference is the time
    that it took to queue them. The work itself shows up in whatever waits next: a `.item()`, or the next batch's copy.

    ## How we know
    Both readings stand in the same round of the same loop, a module or a backward pass is called between them, and no
    call between them reads a value back or waits for the GPU. A clock that is set anew at the end of each round is
    left alone: on average it tells the time of a step.

    ## When to ignore it
    You want to know how long queueing takes, or a call in between waits in a way that cannot be seen here.
    """

    cost = "measure"

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no":
            return
        readings = [
            Reading(index, event, path)
            for index, event in enumerate(job.events)
            if isinstance(event, Called) and event.name in CLOCKS and (path := around(event.source, event.node))
        ]
        for number, stop in enumerate(readings):
            where, since = stop.event.where, stop.since
            if not since or not where.often or (where.phase != "step" and job.gpu != "yes"):
                continue
            start = next((one for one in reversed(readings[:number]) if one.kept_as == since), None)
            if start is None or not _same_round(start, stop):
                continue
            if where.phase != "step" and stop.event.node.lineno - start.event.node.lineno > NEAR:
                continue
            if _only_queues(job.events[start.index + 1 : stop.index], where):
                yield _hit(stop, since)

    cases = (
        Invalid(
            "a throughput that is too good to be true",
            """
import time
import torch

def train(model, loader, optimizer, log):
    model.cuda()
    for step, (x, y) in enumerate(loader):
        start = time.time()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        end = time.time()  # !
        log(step, len(x) / (end - start))
""",
        ),
        Invalid(
            "one forward pass",
            """
import time
import torch

@torch.inference_mode()
def latency(model, loader):
    model = model.eval().cuda()
    times = []
    for x in loader:
        x = x.cuda()
        began = time.perf_counter()
        out = model(x)
        times.append(time.perf_counter() - began)  # !
    return sum(times) / len(times)
""",
        ),
        Valid(
            "waited for, or read",
            """
import time
import torch

def train(model, loader, optimizer):
    model.cuda()
    for x, y in loader:
        start = time.time()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        took = time.time() - start
        began = time.time()
        value = model(x.cuda()).mean().item()
        print(took, time.time() - began, value)
""",
        ),
        Valid(
            "an epoch as a whole",
            """
import time
import torch

def train(model, loader, optimizer, epochs):
    model.cuda()
    for epoch in range(epochs):
        start = time.time()
        for x, y in loader:
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
        print(epoch, time.time() - start)
""",
        ),
        Valid(
            "meters of whole rounds, and of data",
            """
import time
import torch

def train(model, loader, optimizer, batch_time, data_time):
    model.cuda()
    end = time.time()
    for x, y in loader:
        data_time.update(time.time() - end)
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
        batch_time.update(time.time() - end)
        end = time.time()
""",
        ),
        Valid(
            "on the CPU calls return when they are done",
            """
import time
import torch

device = torch.device("cpu")
model = torch.nn.Linear(8, 8).to(device)
start = time.time()
out = model(torch.randn(4, 8))
print(time.time() - start)
""",
        ),
    )


def _same_round(start: Reading, stop: Reading) -> bool:
    """Say whether both readings are made once in the same round of a loop, in this order."""
    if start.event.source is not stop.event.source or start.loop is not stop.loop:
        return False
    same = function_of(start.path) is function_of(stop.path)
    return same and start.event.node.lineno < stop.event.node.lineno


def _only_queues(events: Sequence[Event], where: Where) -> bool:
    """Say whether work of the GPU is queued by these events, and none of them waits for it, as far as can be told."""
    works = False
    for event in events:
        same = event.where.function == where.function
        if isinstance(event, Looped) and (same or event.over.kind == "loader" or event.where.phase != where.phase):
            return False
        if not event.where.often:
            continue
        if isinstance(event, Tested | Shown) and event.value.on_device:
            return False
        if isinstance(event, Indexed) and event.index.boolean and event.index.on_device:
            return False
        if isinstance(event, Called):
            if _may_wait(event):
                return False
            of_tensor = event.receiver is None or event.receiver.kind == "tensor" or event.name == ".forward"
            computes = same and of_tensor and event.result.on_device and event.name not in PASSES_ON
            works = works or computes or event.name == ".backward"
    return works


def _may_wait(call: Called) -> bool:
    """Say whether a call waits for the GPU, or is one that we do not know and that is given tensors of it."""
    if (
        call.name in WAITS
        or "synchronize" in call.name
        or (call.receiver is not None and call.receiver.kind == "scaler")
    ):
        return True
    given = any(value.has_device_tensor for value in (*call.args, *call.keywords.values()))
    foreign = call.receiver is None and not call.name.startswith("torch.")
    return given and foreign and not call.inside and call.result.kind == "unknown"


def _hit(stop: Reading, since: str) -> Hit:
    looped = stop.event.where.phase == "step"
    return Hit(
        node=stop.event.node,
        message=f"The time since `{since}` is that of queueing: nothing before this clock is read waits for the GPU.",
        severity="low",
        confidence=0.6 if looped else 0.5,
        source=stop.event.source,
        title="let the GPU tell the time",
        change="start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
        "start.record()\n...  # the work\nend.record()\n"
        "seconds.append((start, end))  # much later: end.synchronize(); start.elapsed_time(end) / 1000",
    )
