"""Recordings of real jobs, replayed: as they are, with another GPU or host, and a job against its other recording."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import whyidle
from scoring.rates import Spread
from whyidle import replay
from whyidle.errors import WhyIdleError
from whyidle.measure import measure
from whyidle.measure.analysis import Analysis
from whyidle.model.finding import CAUSES, Edit
from whyidle.replay.batch import larger_batch

LEAST_STEPS = 3
FASTER_GPU = Edit("scale_device", {"class": "all"}, {"factor": 0.5})
FASTER_HOST = Edit("scale_host", {"cause": ",".join(CAUSES)}, {"factor": 0.5})
NO_DATA_WAIT = "input.workers_zero"
# Idle time that the host is to blame for, of the step: from here on a faster GPU has to change next to nothing.
BOUND_BY_THE_HOST = 0.6

NO_WORKERS, WORKERS = "kineto/resnet50_num_workers_0/worker0.{}", "kineto/resnet50_num_workers_4/worker0.{}"
# The same job on the same machine, recorded without and with workers (samples of kineto's tb_plugin).
PAIRS = (
    (NO_WORKERS.format("1623143089861.pt.trace.json.gz"), WORKERS.format("1623212756351.pt.trace.json.gz")),
    (NO_WORKERS.format("v_2d19.pt.trace.json.gz"), WORKERS.format("v_7bd2.pt.trace.json.gz")),
)
SWEEP, LARGEST = "kineto/batch_size_sweep/batch_size_{}.json.gz", 512
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)  # up to 64 of shorter sequences, so that they tell less of the largest anyway


@dataclass(frozen=True, slots=True)
class Played:
    """A recording and its replays. Step times are means, ms; errors are percent of each step."""

    path: str
    refused: str
    errors: tuple[float, ...] = ()
    queue: int | None = None
    idle_share: float | None = None
    base_ms: float | None = None
    faster_gpu_ms: float | None = None
    faster_host_ms: float | None = None

    @property
    def spread(self) -> Spread:
        return Spread.of(self.errors)

    @property
    def median(self) -> float | None:
        return float(np.median(np.abs(self.errors))) if self.errors else None

    @property
    def bound_by_the_host(self) -> bool:
        return (self.idle_share or 0.0) >= BOUND_BY_THE_HOST


@dataclass(frozen=True, slots=True)
class Pair:
    """A recording without workers, the one with workers, and what was predicted. Median steps, ms."""

    path: str
    before_ms: float
    after_ms: float
    naive_ms: float  # the wait for data subtracted
    predicted_ms: float | None
    low_ms: float | None = None
    high_ms: float | None = None
    why_not: str = ""

    @property
    def error(self) -> float | None:
        return None if self.predicted_ms is None else self.predicted_ms / self.after_ms - 1

    @property
    def naive_error(self) -> float:
        return self.naive_ms / self.after_ms - 1


@dataclass(frozen=True, slots=True)
class Grown:
    """The GPU's time per sample of a batch of 512, as predicted from a smaller one, and as recorded; us."""

    size: int
    predicted_us: float | None
    recorded_us: float
    why_not: str = ""

    @property
    def error(self) -> float | None:
        return None if self.predicted_us is None else self.predicted_us / self.recorded_us - 1


@dataclass(frozen=True, slots=True)
class Recordings:
    """What replay makes of the corpus."""

    played: tuple[Played, ...]
    errors: Spread
    median: float | None
    pairs: tuple[Pair, ...]
    grown: tuple[Grown, ...] = ()


def score_recordings(folder: Path) -> Recordings:
    facts: Mapping[str, Any] = json.loads((folder / "FACTS.json").read_text("utf-8"))
    names = sorted(name for name, fact in facts.items() if fact["steps"] >= LEAST_STEPS and fact["gpu_ops"])
    played = tuple(play(folder, name) for name in names)
    every = [error for job in played for error in job.errors]
    return Recordings(
        played,
        Spread.of(every),
        float(np.median(np.abs(every))) if every else None,
        tuple(pairs(folder)),
        tuple(sweep(folder)),
    )


def play(folder: Path, name: str) -> Played:
    """Replay a recording as it is, and with a GPU or a host that takes half as long for everything."""
    try:
        measured = measure(whyidle.load([folder / name]))
    except WhyIdleError as error:
        return Played(name, error.message)
    job = replay.replay_of(measured)
    errors = tuple(error for analysis in measured.analyses for error in step_errors(*replay.identity(analysis)))
    if job.refused or not measured.analyses:
        return Played(name, job.refused or "nothing to replay", errors)
    return Played(
        name,
        "",
        errors,
        queue=replay.launch_queue(measured.analyses[0]),
        idle_share=job.base.gpu_idle_share,
        base_ms=job.base.mean_ns / 1e6,
        faster_gpu_ms=job.play([FASTER_GPU]).mean_ns / 1e6,
        faster_host_ms=job.play([FASTER_HOST]).mean_ns / 1e6,
    )


def step_errors(recorded: Iterable[float], again: Iterable[float]) -> list[float]:
    """Return replayed over recorded, less 1, in percent."""
    return [100 * (b / a - 1) for a, b in zip(recorded, again, strict=True)]


def pairs(folder: Path) -> Iterator[Pair]:
    """Yield what is predicted for workers, and what the job took with them."""
    for before, after in PAIRS:
        if (folder / before).exists() and (folder / after).exists():
            yield pair(folder, before, after)


def pair(folder: Path, before: str, after: str) -> Pair:
    report = whyidle.diagnose([folder / before], predict=True)
    summary, prediction = report.summary, report.prediction
    step, measured = summary.step_time_s, whyidle.diagnose([folder / after]).summary.step_time_s
    if step is None or measured is None or prediction is None:
        raise ValueError(f"{before}: without steps there is nothing to compare.")
    said = [finding for finding in report.findings if finding.rule == NO_DATA_WAIT]
    predicted = next((fix.predicted for finding in said for fix in finding.fixes if fix.predicted), None)
    naive = step * (1 - (summary.data_wait_share or 0.0))
    if predicted is None:
        why = prediction.refused or prediction.unpriced.get(NO_DATA_WAIT, "not found")
        return Pair(before, 1e3 * step, 1e3 * measured, 1e3 * naive, None, why_not=why)
    ms = predicted.step_time_s
    return Pair(
        before, 1e3 * step, 1e3 * measured, 1e3 * naive, 1e3 * ms.likely, low_ms=1e3 * ms.low, high_ms=1e3 * ms.high
    )


def sweep(folder: Path) -> Iterator[Grown]:
    """Yield what each size of one model's batches says of the largest (an A100, TraceLens' recordings)."""
    if not (folder / SWEEP.format(LARGEST)).exists():
        return
    recorded = larger_batch(_analysis(folder / SWEEP.format(LARGEST)), 1.0).now / LARGEST / 1e3
    for size in SIZES:
        grown = larger_batch(_analysis(folder / SWEEP.format(size)), LARGEST / size)
        us = None if grown.why_not else grown.likely / size / 1e3
        yield Grown(size, us, recorded, grown.why_not)


def _analysis(path: Path) -> Analysis:
    return Analysis(whyidle.load([path]).traces[0])
