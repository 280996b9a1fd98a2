from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.enclosing import around
from whyidle.lint.events import Called, Event, Set
from whyidle.lint.job import Job
from whyidle.lint.repair import Remove, Repair, SetArguments
from whyidle.lint.rules.reached import condition
from whyidle.lint.values import Value
from whyidle.model.finding import Severity


@dataclass(frozen=True, slots=True)
class Tool:
    """What a debugging aid does to a training that it is left on in."""

    does: str
    severity: Severity = "medium"
    argument: str = ""  # that switches it on
    position: int = -1
    default: object = None  # of that argument
    off: tuple[object, ...] = (False, None, 0, "0", "")


PROFILED = "The profiler records every operation of the whole training, in memory."
ANOMALY = "keeps a stack for every operation and reads back whether gradients are NaN after each"
TOOLS = {
    "torch.autograd.set_detect_anomaly": Tool(f"Anomaly detection {ANOMALY}.", argument="mode", position=0),
    "torch.autograd.anomaly_mode.set_detect_anomaly": Tool(
        f"Anomaly detection {ANOMALY}.", argument="mode", position=0
    ),
    "torch.autograd.detect_anomaly": Tool(f"Anomaly detection {ANOMALY}.", argument="check_nan", default=True),
    "torch.cuda.set_sync_debug_mode": Tool(
        "Sync debug mode warns, with a stack, at every wait for the GPU.", "low", "debug_mode", 0,
        off=(0, "default", None),
    ),
    "transformers.debug_utils.DebugUnderflowOverflow": Tool(
        "DebugUnderflowOverflow reads back the range of every module's inputs, weights and outputs in every step.",
        default=True,
    ),
}  # fmt: skip
# They slow down what runs inside of them: left on where that is a whole training.
PROFILERS = {
    "torch.profiler.profile": Tool(PROFILED, default=True),
    "torch.autograd.profiler.profile": Tool(PROFILED, argument="enabled", position=0, default=True),
    "torch.autograd.profiler.emit_nvtx": Tool(
        "A range for NVTX is made around every operation of the whole training.", "low", "enabled", 0, True
    ),
    "cProfile.Profile": Tool("cProfile notes every call of a Python function in the whole training.", default=True),
}  # fmt: skip
VARIABLES = {
    "os.environ.CUDA_LAUNCH_BLOCKING": Tool("CUDA_LAUNCH_BLOCKING makes the host wait for every single kernel."),
    "os.environ.HIP_LAUNCH_BLOCKING": Tool("HIP_LAUNCH_BLOCKING makes the host wait for every single kernel."),
    "os.environ.TORCH_DISTRIBUTED_DEBUG": Tool(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective against all other ranks first.", off=("INFO", "OFF", "")
    ),
}
TRAINER = {
    "detect_anomaly": Tool(f"Anomaly detection {ANOMALY}.", argument="detect_anomaly"),
    "profiler": Tool(
        "Lightning's profiler records the whole training.", "low", "profiler", off=(None, "simple", False)
    ),
}


class LeftOn(Check):
    """A tool for debugging or measuring is left on, in every step of the training.

    ## Why it costs time
    With `CUDA_LAUNCH_BLOCKING=1` the host waits for each kernel, so that nothing overlaps. Anomaly detection reads back
    a value after each operation of the backward pass. Profilers add work to each launch and fill the memory.

    ## How we know
    The call or the setting stands in the source with no condition before it, and its argument does not switch it off. A
    profiler counts where a training loop stands in its `with` block, with no schedule and no `break` that ends it.

    ## When to ignore it
    You are looking for an error right now, or measure on purpose: then nothing that is timed meanwhile is what a normal
    run takes.
    """

    cost = "measure"
    sees = (Called, Set)
    calls = ends({*TOOLS, "Trainer"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        # a function that nobody calls here is there for those who look for an error
        if event.where.guard in {"rare", "error"} or event.where.phase == "maybe" or event.where.work == "eval":
            return
        if not (job.trains or job.gpu == "yes"):
            return
        if isinstance(event, Set):
            tool = VARIABLES.get(event.name)
            if tool is not None and _is_on(tool, event.value):
                yield from self._hit(event, tool, Remove(event.statement))
            return
        assert isinstance(event, Called)
        tool = TOOLS.get(event.name)
        if tool is not None and _switched_on(tool, event):
            alone = isinstance(event.statement, ast.Expr) and event.statement.value is event.node
            yield from self._hit(event, tool, Remove(event.statement) if alone else None)
        elif event.name.rpartition(".")[2] == "Trainer":
            for name, setting in TRAINER.items():
                if name in event.keywords and _switched_on(setting, event):
                    yield from self._hit(event, setting, SetArguments(event.node, {}, drop=(name,)))

    def end(self, job: Job) -> Iterator[Hit]:
        steps = [(step.source, step.node) for step in job.steps() if step.where.work == "train"]
        for event in job.events:
            tool = PROFILERS.get(event.name) if isinstance(event, Called) else None
            if tool is None or not isinstance(event, Called) or not _switched_on(tool, event):
                continue
            block = event.statement
            if not isinstance(block, ast.With) or "schedule" in event.keywords or _ends_early(block):
                continue
            if any(source is event.source and node in ast.walk(block) for source, node in steps):
                yield from self._hit(event, tool, None)

    def _hit(self, event: Called | Set, tool: Tool, change: Remove | SetArguments | None) -> Iterator[Hit]:
        when = condition(around(event.source, event.node))
        flag = event.where.guard == "flag" or bool(when)
        name = event.name.rpartition(".")[2] or event.name
        yield Hit(
            node=event.node,
            message=f"{tool.does.removesuffix('.')}, when `{when}` holds." if when else tool.does,
            severity="low" if flag else tool.severity,
            confidence=0.5 if flag else 0.9,
            source=event.source,
            title="switch it off where you do not debug",
            change=f"# without {name}, or behind an option: if args.debug: ...",
            effort="setting",
            repair=Repair((change,), safe=False, note="errors are found later, or not at all") if change else None,
        )

    cases = (
        Invalid(
            "left from a search for NaN",
            """
import os
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # !
import torch

torch.autograd.set_detect_anomaly(True)  # !

def train(model, loader, optimizer):
    model.cuda()
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        ),
        Invalid(
            "as blocks around the work",
            """
import torch

def train(model, loader, optimizer, epochs):
    model.cuda()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:  # !
        for epoch in range(epochs):
            for x, y in loader:
                with torch.autograd.detect_anomaly():  # !
                    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
    print(prof.key_averages().table())
""",
        ),
        Invalid(
            "an argument of a trainer",
            """
import lightning as L

trainer = L.Trainer(accelerator="gpu", max_epochs=100, detect_anomaly=True)  # !
trainer.fit(LitModel(), train_loader)
""",
        ),
        Valid(
            "off, or by an option that is off",
            """
import argparse
import os
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
args = parser.parse_args()
torch.autograd.set_detect_anomaly(False)
if args.debug:
    torch.autograd.set_detect_anomaly(True)
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
torch.autograd.set_detect_anomaly(args.debug)
os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"
for x, y in loader:
    loss = model(x.cuda(), y.cuda())
    loss.backward()
    optimizer.step()
""",
        ),
        Valid(
            "some steps are profiled, by a schedule",
            """
import torch
from torch.profiler import profile, schedule

def train(model, loader, optimizer):
    model.cuda()
    with profile(schedule=schedule(wait=10, warmup=2, active=3, repeat=1)) as prof:
        for x, y in loader:
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
""",
        ),
        Valid(
            "ten steps are profiled, and that is it",
            """
import torch

def profile_steps(model, loader, optimizer):
    model.cuda()
    with torch.profiler.profile() as prof:
        for i, (x, y) in enumerate(loader):
            if i == 10:
                break
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
    prof.export_chrome_trace("trace.json")
""",
        ),
    )


def _switched_on(tool: Tool, event: Called) -> bool:
    """Say whether a call switches its tool on, by what is spelled out."""
    value = event.argument(tool.position, tool.argument) if tool.argument else None
    if value is None:
        return tool.default is not None and not event.spread
    return _is_on(tool, value)


def _is_on(tool: Tool, value: Value) -> bool:
    return value.known and value.constant not in tool.off


def _ends_early(block: ast.With) -> bool:
    """Say whether loops of a block end after some steps, by a `break` or a number that is spelled out."""
    return any(
        isinstance(node, ast.Break)
        or (isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and _is_counted(node.iter))
        for node in ast.walk(block)
    )


def _is_counted(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "islice" or (name == "range" and all(isinstance(one, ast.Constant) for one in call.args))
