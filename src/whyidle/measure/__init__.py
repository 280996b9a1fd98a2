"""Evidence in, measurements out. One file per question; `measure` asks them all, rank by rank.

A run has traces, logs of a job that was watched (step_log/), curves that others recorded (curve/), or several of them.
Then the traces tell of the GPU, and the logs how long steps take: they hold the whole run, undisturbed by a profiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from statistics import mean, median
from typing import TypeAlias

from whyidle.measure import (
    accumulation,
    clock,
    collective,
    compute,
    curve,
    flops,
    idle,
    input,  # noqa: A004
    late,
    launch,
    network,
    optimizer,
    pause,
    recompile,
    step_log,
    sync,
    transfer,
)
from whyidle.measure.analysis import Analysis
from whyidle.measure.curve import Curves
from whyidle.measure.detail import detail
from whyidle.measure.sanity import Doubt, doubts
from whyidle.measure.settings import gpu_counts, settings
from whyidle.measure.step_log import WatchedJob
from whyidle.measure.typical import not_typical
from whyidle.model.detail import Detail
from whyidle.model.evidence import Run, Trace, Value
from whyidle.model.finding import DeviceBusy, GpuCount, Location
from whyidle.model.measurement import CATALOG, Measurement, Measurements

OfRanks: TypeAlias = Sequence[tuple[Analysis, list[Measurement]]]

# What a share is a share of, where that is not the window.
DENOMINATORS = {
    "of idle_loader_workers": "idle_loader_workers_share",
    "of matmul": "matmul_share",
    "of busy": "gpu_busy_share",
}
# A rank on which these are missing had none of it.
ABSENT_IS_NONE = {
    "data_wait_share",
    "idle_loader_zero_share",
    "idle_loader_workers_share",
    "idle_data_range_share",
    "loader_batches_per_step",
    "loader_first_wait_share",
    "loader_start_waits",
    "loader_start_wait_share",
    "optimizer_launches_per_step",
    "optimizer_tensorwise_per_step",
    "optimizer_tensorwise_share",
    "optimizer_latency_share",
    "optimizer_kernel_gap_share",
    "idle_zero_grad_share",
    "zero_grad_share",
    "zero_grad_fills_per_step",
}

# What the log of a whole run tells better than the trace of a few steps. `steps` stays that of the judged window.
LOG_FIRST = {"step_time_s", "step_time_mean_s", "data_wait_share"}

QUESTIONS = (idle, input, transfer, sync, launch, optimizer, compute, flops, recompile, pause, collective, accumulation)


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that was measured in a run, and what is doubtful about it."""

    analyses: tuple[Analysis, ...]  # of the traces that were measured, by rank
    measurements: Measurements
    devices: tuple[DeviceBusy, ...]
    detail: Detail
    gpus: tuple[GpuCount, ...]
    settings: dict[str, Value]
    steps_from: str | None
    doubts: tuple[Doubt, ...]
    warnings: tuple[str, ...] = ()  # recordings and devices that were left out
    confidence: float = 1.0  # what the doubts leave of it, 0-1; of several ranks the mean, as of their shares
    watched: WatchedJob = field(default_factory=WatchedJob)
    curves: Curves = field(default_factory=Curves)

    @property
    def traces(self) -> tuple[Trace, ...]:
        return tuple(a.t.trace for a in self.analyses)

    @property
    def tells_idle(self) -> bool:
        """Say whether what the traces hold of idle time can be believed."""
        return not any(doubt.hollow for doubt in self.doubts)


def measure(run: Run) -> Measured:
    """Measure every rank that did GPU work and can be believed, what the logs tell, and the run as a whole."""
    watched = step_log.measure(run)
    curves = curve.measure(run)
    recorded = [Analysis(trace) for trace in run.traces if len(trace.device_slices)]
    doubted = [(a, list(doubts(a))) for a in recorded]
    usable = [(a, found) for a, found in doubted if not any(doubt.refuse for doubt in found)]
    if not usable and not watched.logs:
        usable = doubted
    analyses = [a for a, _ in usable]
    traced = of_traces(analyses)
    m = joined(traced, watched, curves)
    sources = [a.t.steps.source for a in analyses]
    return Measured(
        analyses=tuple(analyses),
        measurements=m,
        devices=tuple(device_busy(analyses)) or curves.devices,
        detail=detail(analyses),
        gpus=gpu_counts(analyses) or watched.gpus or curves.gpus,
        settings=dict(curves.settings) | settings(analyses, m) | dict(watched.settings),
        steps_from=watched.steps_from or next((source for source in sources if source), None),
        doubts=tuple(named_doubts(usable)),
        warnings=(
            *left_out(run, [entry for entry in doubted if entry not in usable]),
            *strays(analyses),
            *watched.warnings,
            *curves.warnings,
            *not_typical(traced, watched.measurements),
        ),
        confidence=mean([prod(doubt.confidence for doubt in found) for _, found in usable] or [1.0]),
        watched=watched,
        curves=curves,
    )


def of_traces(analyses: Sequence[Analysis]) -> list[Measurement]:
    """Return what the traces of all ranks tell."""
    of_ranks, matched = together(analyses)
    parted = parts(of_ranks, () if matched else ("collective_wait_share",))
    across = (*late.measure(analyses), *network.measure(analyses), *clock.measure(analyses))
    return [*whole(of_ranks), *parted, *across]


def joined(traced: Sequence[Measurement], watched: WatchedJob, curves: Curves) -> Measurements:
    """Return everything measured, each name from where it is told best."""
    logged = {m.name for m in watched.measurements}
    of_trace = [m for m in traced if not (m.name in LOG_FIRST and m.name in logged)]
    known = {m.name for m in of_trace}
    told = [*of_trace, *(m for m in watched.measurements if m.name not in known)]
    known = {m.name for m in told}
    return Measurements([*told, *(m for m in curves.measurements if m.name not in known)])


def left_out(run: Run, unusable: Sequence[tuple[Analysis, list[Doubt]]]) -> Iterator[str]:
    """Yield why recordings were left out while others are judged."""
    if any(len(trace.device_slices) for trace in run.traces) or run.curves:
        for trace in run.traces:
            if not len(trace.device_slices):
                yield f"{trace.path}: no GPU operation recorded, left out."
    for a, found in unusable:
        yield f"{a.t.trace.path}: left out, " + next(doubt.message for doubt in found if doubt.refuse)


def strays(analyses: Iterable[Analysis]) -> Iterator[str]:
    """Yield the devices that a process touched and did not work on."""
    for a in analyses:
        for device in a.strays:
            noun = "operation" if len(device.ops) == 1 else "operations"
            alone = (a.t.trace.world_size or 1) == 1
            yield (
                f"GPU {device.device} ran {len(device.ops):,} {noun} of a process that works on another GPU: left out. "
                + (
                    "If it was rented for this job, it is idle."
                    if alone
                    else "torch.cuda.set_device() early, and map_location in torch.load(), avoid that."
                )
            )


def together(analyses: Sequence[Analysis]) -> tuple[OfRanks, bool]:
    """Return the measurements of each rank, and whether how long ranks wait for each other is known.

    What all ranks together show replaces what one rank shows of it. Of some of the ranks the longer wait is right: the
    late one may not be among them.
    """
    of_ranks = [(a, list(questions(a))) for a in analyses]
    waits = collective.across(analyses) if len(analyses) > 1 else None
    if waits is None:
        return of_ranks, False
    complete = collective.complete(analyses)
    found: list[tuple[Analysis, list[Measurement]]] = []
    for (a, measured), wait in zip(of_ranks, waits, strict=True):
        alone = next((float(m.value) for m in measured if m.name == "collective_wait_share"), 0.0)
        longest = Measurement("collective_wait_share", wait if complete else max(wait, alone))
        found.append((a, [m for m in measured if m.name != longest.name] + [longest]))
    return found, complete


def questions(a: Analysis) -> Iterator[Measurement]:
    """Yield everything measured of one rank."""
    for question in QUESTIONS:
        yield from question.measure(a)


def device_busy(analyses: Iterable[Analysis]) -> Iterator[DeviceBusy]:
    for a in analyses:
        for device in a.devices:
            window = device.high - device.low
            yield DeviceBusy(a.t.trace.rank, device.device, device.busy.total / max(window, 1), window / 1e9)


def named_doubts(doubted: Sequence[tuple[Analysis, list[Doubt]]]) -> Iterator[Doubt]:
    """Yield the doubts of all ranks, one that several share once, with its ranks where it is not that of all."""
    ranks: dict[Doubt, list[int | None]] = {}
    for a, found in doubted:
        for doubt in found:
            ranks.setdefault(doubt, []).append(a.t.trace.rank)
    for doubt, whose in ranks.items():
        known = [str(rank) for rank in whose if rank is not None]
        if len(whose) == len(doubted) or not known:
            yield doubt
        else:
            yield replace(
                doubt, message=f"{'rank' if len(known) == 1 else 'ranks'} {', '.join(known)}: {doubt.message}"
            )


def parts(of_ranks: OfRanks, unknown: Sequence[str]) -> Iterator[Measurement]:
    """Yield each rank's own measurements, where there are several ranks, but for those that are unknown of each."""
    if len(of_ranks) > 1:
        for a, measured in of_ranks:
            for m in (m for m in measured if m.name not in unknown):
                yield Measurement(m.name, m.value, f"rank {a.t.trace.rank}", m.locations)


def whole(of_ranks: OfRanks) -> Iterator[Measurement]:
    """Yield the run's measurements: shares weighted by what they are shares of, other numbers as their median.

    What one rank could not measure is not measured for the run, unless that it is missing says that there was none:
    a rank that holds no DataLoader did not wait for one, as far as its host was recorded (a doubt says so where not).
    Locations are those of the rank with most of it.
    """
    by_name: dict[str, list[tuple[float, Measurement]]] = {}
    for a, measured in of_ranks:
        values = {m.name: m for m in measured}
        for m in measured:
            by_name.setdefault(m.name, []).append((a.device_window * denominator(m.name, values), m))
    for name, found in by_name.items():
        complete = len(found) == len(of_ranks)
        if complete or name in ABSENT_IS_NONE:
            idle = sum(a.device_window for a, _ in of_ranks) - sum(weight for weight, _ in found)
            missing = idle if not complete and CATALOG[name].unit == "of window" else 0
            yield Measurement(name, combine(name, found, missing), locations=worst_places(found))


def denominator(name: str, values: Mapping[str, Measurement]) -> float:
    """Return what a share of this rank is a share of, as a share of its window."""
    unit = CATALOG[name].unit
    if unit == "of GPU span" and "outside_span_share" in values:
        return 1 - float(values["outside_span_share"].value)
    of = DENOMINATORS.get(unit, "")
    return float(values[of].value) if of in values else 1.0


def combine(name: str, found: list[tuple[float, Measurement]], missing: float = 0.0) -> Value:
    """Return the value of a run from those of its ranks; `missing` is the weight of ranks that have none of it."""
    values = [m.value for _, m in found]
    if len(values) == 1 and not missing:
        return values[0]
    if isinstance(values[0], bool):
        return any(values)
    if isinstance(values[0], str):
        return values[0]
    numbers = [float(value) for value in values]
    if CATALOG[name].unit.startswith("of "):
        weights = [weight for weight, _ in found]
        total = sum(weights) + missing
        return sum(w * n for w, n in zip(weights, numbers, strict=True)) / total if total else 0.0
    return median(numbers)


def worst_places(found: list[tuple[float, Measurement]]) -> tuple[Location, ...]:
    """Return the locations of the rank on which the value is largest."""
    _, worst = max(found, key=lambda item: item[1].value if isinstance(item[1].value, int | float) else 0)
    return worst.locations
