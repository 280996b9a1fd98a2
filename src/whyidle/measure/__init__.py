"""Evidence in, measurements out. One file per question; `measure` asks them all, rank by rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from statistics import mean, median

from whyidle.measure import collective, compute, idle, input, launch, pause, sync, transfer  # noqa: A004
from whyidle.measure.analysis import Analysis
from whyidle.measure.detail import detail
from whyidle.measure.sanity import Doubt, doubts
from whyidle.measure.settings import gpu_counts, settings
from whyidle.model.evidence import Run, Value
from whyidle.model.finding import Detail, DeviceBusy, GpuCount, Location
from whyidle.model.measurement import CATALOG, Measurement, Measurements

QUESTIONS = (idle, input, transfer, sync, launch, compute, pause, collective)


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that was measured in a run, and what is doubtful about it."""

    measurements: Measurements
    devices: tuple[DeviceBusy, ...]
    detail: Detail
    gpus: tuple[GpuCount, ...]
    settings: dict[str, Value]
    steps_from: str | None
    doubts: tuple[Doubt, ...]
    confidence: float = 1.0  # what the doubts leave of it, 0-1; of several ranks the mean, as of their shares


def measure(run: Run) -> Measured:
    """Measure every trace that holds GPU work, and the run as a whole."""
    analyses = [Analysis(trace) for trace in run.traces if len(trace.device_slices)]
    of_ranks = [(a, list(questions(a))) for a in analyses]
    m = Measurements([*whole(of_ranks), *parts(of_ranks)])
    sources = [a.t.steps.source for a in analyses]
    doubted = [(a, list(doubts(a))) for a in analyses]
    return Measured(
        measurements=m,
        devices=tuple(device_busy(analyses)),
        detail=detail(analyses),
        gpus=gpu_counts(analyses),
        settings=settings(analyses, m),
        steps_from=next((source for source in sources if source), None),
        doubts=tuple(named_doubts(doubted)),
        confidence=mean([prod(doubt.confidence for doubt in found) for _, found in doubted] or [1.0]),
    )


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
    """Yield the doubts of all ranks, each with its rank where there are several."""
    for a, found in doubted:
        for doubt in found:
            if len(doubted) > 1 and a.t.trace.rank is not None:
                yield replace(doubt, message=f"rank {a.t.trace.rank}: {doubt.message}")
            else:
                yield doubt


OfRanks = Sequence[tuple[Analysis, list[Measurement]]]


def parts(of_ranks: OfRanks) -> Iterator[Measurement]:
    """Yield each rank's own measurements, where there are several ranks."""
    if len(of_ranks) > 1:
        for a, measured in of_ranks:
            for m in measured:
                yield Measurement(m.name, m.value, f"rank {a.t.trace.rank}", m.locations)


def whole(of_ranks: OfRanks) -> Iterator[Measurement]:
    """Yield the run's measurements: shares weighted by the ranks' windows, other numbers as their median.

    What one rank could not measure is not measured for the run. Locations are those of the rank with most of it.
    """
    by_name: dict[str, list[tuple[int, Measurement]]] = {}
    for a, measured in of_ranks:
        for m in measured:
            by_name.setdefault(m.name, []).append((a.device_window, m))
    for name, found in by_name.items():
        if len(found) == len(of_ranks):
            yield Measurement(name, combine(name, found), locations=worst_places(found))


def combine(name: str, found: list[tuple[int, Measurement]]) -> Value:
    """Return the value of a run from those of its ranks."""
    values = [m.value for _, m in found]
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], bool):
        return any(values)
    if isinstance(values[0], str):
        return values[0]
    numbers = [float(value) for value in values]
    if CATALOG[name].unit.startswith("of "):
        weights = [weight for weight, _ in found]
        return sum(w * n for w, n in zip(weights, numbers, strict=True)) / max(sum(weights), 1)
    return median(numbers)


def worst_places(found: list[tuple[int, Measurement]]) -> tuple[Location, ...]:
    """Return the locations of the rank on which the value is largest."""
    _, worst = max(found, key=lambda item: item[1].value if isinstance(item[1].value, int | float) else 0)
    return worst.locations
