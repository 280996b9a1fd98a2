"""Calls that wait for the GPU by themselves: synchronize, barriers, the state of a GradScaler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.repair import Remove, Repair
from whyidle.lint.rules.sync.drain import LIKELY, PROVABLE, Fix, drains, quoted

_DEVICE = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.xpu.synchronize"})
_BARRIERS = frozenset({"torch.distributed.barrier", "torch.distributed.monitored_barrier", ".wait_for_everyone"})
_STREAM = re.compile(r"(stream|event)s?(_\w+)?(\(\))?(\[[^\]]*\])?$", re.IGNORECASE)
_CLOCK = re.compile(r"\b(perf_counter|monotonic|time\.time)\b")
_BENCHMARK = re.compile(r"bench|throughput|latency|speed|timing|profil|measure", re.IGNORECASE)
_EVENTS = (
    "start.record(); step(); end.record()  # torch.cuda.Event(enable_timing=True)\n"
    "if i % 100 == 0:\n    end.synchronize(); print(start.elapsed_time(end))"
)


class Framework(Check):
    """The CPU waits for the GPU, or for other ranks, on purpose: `synchronize()`, `barrier()`, `scaler.get_scale()`.

    ## Why it costs time
    The call returns when the GPU has done everything. From then on the CPU starts again with an empty
    queue, and the GPU waits for each launch until the CPU is ahead once more. `GradScaler.get_scale()`
    and `state_dict()` read the scale back and wait in the same way.

    ## How we know
    The call stands in every step of a training loop. Right after another wait, or once per optimizer step
    of several micro-steps, it costs little and is of low severity.

    ## When to ignore it
    It was put there to time something, and the timing is wanted: a benchmark. Collectives that time out
    without it point to another fault.
    """

    cost = "drain"
    sees = (Called,)
    calls = ends({*_DEVICE, *_BARRIERS, "synchronize", "get_scale", "state_dict"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called):
            return
        if not event.where.reachable:
            return
        if _synchronizes(event) and not _BENCHMARK.search(event.where.function):
            sure = PROVABLE if event.name in _DEVICE else LIKELY
            does = f"{quoted(event.node)} waits until the GPU has done all that was queued,"
            yield from drains(event, job, does, _without(event), sure=sure, seldom=True)
        elif event.name in _BARRIERS:
            does = f"{quoted(event.node)} waits for all ranks"
            fix = Fix("leave it out: collectives wait for each other anyway", "# delete the barrier from the step")
            effect = "nothing is queued meanwhile"
            yield from drains(event, job, does, fix, sure=LIKELY, effect=effect, seldom=True)
        elif _reads_scale(event):
            does = f"{quoted(event.node)} reads the loss scale back from the GPU"
            fix = Fix(
                "read the scale where it is logged, every hundred steps",
                f"if step % 100 == 0:\n    scale = {ast.unparse(event.node)}",
                risk="a skipped optimizer step is noticed later",
            )
            yield from drains(event, job, does, fix, sure=LIKELY, seldom=True)

    cases = (
        Invalid(
            "a synchronize before each meter, and the scale for the log",
            """\
import time
import torch

def train_one_epoch(model, criterion, loader, optimizer, scaler, meters):
    model.train()
    end = time.time()
    for i, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scale = scaler.get_scale()  # !
        torch.cuda.synchronize()  # !
        meters["time"].update(time.time() - end)
        meters["scale"].update(scale)
        end = time.time()

def main(loader):
    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    meters = {"time": Meter(), "scale": Meter()}
    for epoch in range(5):
        train_one_epoch(model, torch.nn.CrossEntropyLoss(), loader, optimizer, scaler, meters)
""",
        ),
        Invalid(
            "a barrier and the current stream's synchronize in each step",
            """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train(model, loader, optimizer, rank):
    model = DistributedDataParallel(model.to(rank), device_ids=[rank])
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.to(rank)), y.to(rank))
        loss.backward()
        dist.barrier()  # !
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.current_stream().synchronize()  # !
""",
        ),
        Valid(
            "once per epoch, with a checkpoint, and every hundred steps",
            """\
import time
import torch
import torch.distributed as dist

def train(model, loader, optimizer, scaler, epochs):
    model.cuda()
    for epoch in range(epochs):
        start = time.perf_counter()
        for step, x in enumerate(loader):
            scaler.scale(model(x.cuda()).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            if step % 100 == 0:
                torch.cuda.synchronize()
                print(step, (time.perf_counter() - start) / (step + 1), scaler.get_scale())
            if step % 5000 == 0:
                torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "last.pt")
                dist.barrier()
        torch.cuda.synchronize()
        print(epoch, time.perf_counter() - start)
""",
        ),
        Valid(
            "waits of one stream for another are made on the GPU; meters that synchronize are no streams",
            """\
import torch

def train(model, loader, optimizer, meter):
    model.cuda()
    side = torch.cuda.Stream()
    for x in loader:
        with torch.cuda.stream(side):
            x = x.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        meter.update(loss.detach())
    meter.synchronize()
""",
        ),
        Valid(
            "a setting that is off",
            """\
import argparse
import torch

def main(model, loader, optimizer):
    parser = argparse.ArgumentParser()
    parser.add_argument("--synchronize-step", action="store_true", default=False)
    args = parser.parse_args()
    model.cuda()
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if args.synchronize_step:
            torch.cuda.synchronize()
""",
        ),
    )


def _synchronizes(event: Called) -> bool:
    if event.name in _DEVICE:
        return True
    if event.name == ".synchronize" and event.receiver is not None:
        made_by_torch = event.receiver.name.startswith("torch.") and "cuda" in event.receiver.name
        return made_by_torch or bool(_STREAM.search(event.receiver_text))
    # `synchronize = torch.cuda.synchronize if on_gpu else nothing`
    return event.name == "synchronize" and not event.inside and isinstance(event.node.func, ast.Name)


def _reads_scale(event: Called) -> bool:
    if event.name not in {".get_scale", ".state_dict"} and not event.name.endswith((".get_scale", ".state_dict")):
        return False
    if event.where.function.endswith((".get_scale", ".state_dict")):
        return False  # of a wrapper: who calls it is told
    if event.receiver is not None and event.receiver.kind == "scaler":
        return True
    return "scaler" in event.receiver_text.lower()


def _without(event: Called) -> Fix:
    repair = None
    if isinstance(event.statement, ast.Expr) and event.statement.value is event.node:
        note = "clocks around it then time the queue; copies to the CPU with non_blocking=True need it"
        repair = Repair((Remove(event.statement),), safe=False, note=note)
    timed = bool(_CLOCK.search(event.source.text))
    title = "take it out of the step; to time a step, use events" if timed else "take it out of the step"
    gone = f"# delete {ast.unparse(event.node)} from the step"
    return Fix(
        title,
        f"{gone}\n{_EVENTS}" if timed else gone,
        repair,
        "clocks of the CPU around the step then measure launching, not the GPU" if timed else "",
    )
