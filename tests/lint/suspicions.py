"""A script with lines that can stall, findings about them, and recordings of it made by hand."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.traces import Recording as Trace
from whyidle.judge import judge, measured_of
from whyidle.lint.source import Source
from whyidle.model.evidence import Node, Process, Run, StepLog
from whyidle.model.finding import Finding, Location
from whyidle.proof import weighed

RUNS = Path(__file__).parents[1] / "runs"
FIRST = 31  # the line of `def train_one_step` in the simulator's train.py
TRAIN = (
    "\n" * (FIRST - 1)
    + """\
def train_one_step(model, batch, optimizer, meter):
    images, labels = batch
    images = images.to("cuda")
    loss = criterion(model(images), labels)
    loss.backward()
    meter.update(loss.item())
    keep = images[labels > 0]
    if loss > 100:
        raise RuntimeError("diverged")
    optimizer.step()
    return keep


def evaluate(model, loader):
    return sum(model(x).mean().item() for x in loader)


loader = DataLoader(
    dataset,
    batch_size=64,
)
"""
)
ITEM, MASK, IF, COPY, EVAL, LOADER = 36, 37, 38, 33, 45, 48


def source(text: str = TRAIN, name: str = "train.py", path: str = "/srv/me/job/train.py") -> Source:
    return Source(Path(path), name, text, ast.parse(text))


def finding(rule: str, line: int, severity: str = "medium", file: str = "train.py") -> Finding:
    """A finding as the lint makes it."""
    place = Location(file, line, 5, TRAIN.splitlines()[line - 1].strip())
    return Finding(rule, severity, 0.7, "It can stall.", None, locations=(place,), evidence="source")


def told(run: Run, *findings: Finding, sources: tuple[Source, ...] | None = None) -> tuple[Finding, ...]:
    """Weigh findings against a run."""
    measured = measured_of(run)
    return weighed(findings, sources or (source(),), run, measured, judge(run, measured=measured))


READ, MASKED, BRANCH = (
    finding("sync.scalar_read", ITEM),
    finding("sync.data_dependent", MASK),
    finding("sync.scalar_read", IF),
)
UPLOAD, WORKERS = finding("transfer.pageable_h2d", COPY), finding("input.workers_zero", LOADER)


def steps(wait: int = 300, gap: int = 200, frames: tuple[str, ...] = (), count: int = 5, waits: int = 1) -> Trace:
    """Steps of 1000 us: a kernel, a read for which the host waits, then `gap` us in which the GPU has nothing to do."""
    trace = Trace()
    train = f"train.py({FIRST}): train_one_step"
    for i in range(count):
        now = i * 1000
        trace.step(i, now, now + 1000).python(train, now + 1, now + 990)
        trace.op("aten::mm", now + 1, now + 12).kernel(now + 4, now + 1000 - gap, launched=now + 2)
        end = now + 1000 - gap + 5
        for depth, frame in enumerate(frames):
            trace.python(frame, end - wait - 10 + depth, end + 10 - depth)
        trace.op("aten::item", end - wait - 2, end + 2).op("aten::_local_scalar_dense", end - wait - 1, end + 1)
        for earlier in range(1, waits):
            at = now + 20 + 20 * earlier
            trace.op("aten::item", at, at + 14).op("aten::_local_scalar_dense", at + 1, at + 13)
            trace.copy(
                "Memcpy DtoH (Device -> Pageable)",
                at + 9,
                at + 11,
                launched=at + 2,
                took=10,
                size=4,
                call="cudaMemcpyAsync",
            )
        name = "Memcpy DtoH (Device -> Pageable)"
        trace.copy(name, end - 4, end - 2, launched=end - wait, took=wait, size=4, call="cudaMemcpyAsync")
    return trace


def by_hand(*frames: str, gap: int = 200) -> Run:
    return Run((steps(frames=frames, gap=gap).trace(rank=0),))


def commanded(run: Run, *command: str) -> Run:
    """The same run, of which is known what it was started with."""
    return replace(run, nodes=(Node("node", "run", "host", command or ("python", "train.py"), 0, 0),))


ITEM_FRAME = "<built-in method item of Tensor object at 0x7f0000000000>"


def log(**seen: Any) -> StepLog:
    """A process that was watched."""
    empty = np.empty(0, np.int64)
    columns = dict.fromkeys(("kind", "flags", "thread", "sequence", "start", "duration", "value"), empty)
    return StepLog("run", Process("node", 1, 0), **columns, **seen)
