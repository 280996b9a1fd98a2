"""Charts of steps: how long each took and what of it was a wait, and how their times are distributed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whyidle.measure import Measured
from whyidle.measure.analysis import Analysis
from whyidle.measure.loss import beside, unrolled
from whyidle.measure.step_log import phases
from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Curve, Floats64, Ints, Series
from whyidle.model.intervals import Intervals, overlap, union
from whyidle.model.picture import Chart, Line, Mark, MarkKind
from whyidle.model.times import span
from whyidle.picture import logs
from whyidle.picture.plot import rounded, whole_of

POINTS: Final = 600  # of a line; of more steps each is the mean of several
LONG: Final = 10.0  # s: from there on a step time is told in s, not in ms
FEW: Final = 2  # steps: fewer are no chart
DISTRIBUTED: Final = 20  # steps: fewer have no distribution
BARS: Final = (8, 48)  # of a distribution
OUTLIERS: Final = 99.0  # percentile of the times, beyond
BEYOND: Final = 1.5  # times which they are in the last bar
MARKS: Final = 100
PRINTED: Final[tuple[MarkKind, ...]] = ("checkpoint", "evaluation")  # names of series, too


def charts(measured: Measured) -> Iterator[Chart]:
    """Yield what is known of the steps of a run: of the whole of it, of those that were traced, of what was printed."""
    watch = slowest(measured.watched.watches)
    traced = max((a for a in measured.analyses if len(a.t.steps)), key=_mean_step, default=None)
    printed = [found for curve in measured.curves.curves if (found := _printed(curve)) is not None]
    times: list[tuple[Floats64, str]] = []
    if watch is not None:
        yield from _watched(watch, len(measured.watched.watches))
        times.append((watch.steps.times / 1e9, _of(watch.log.process.rank, len(measured.watched.watches))))
    for number, lines, marks in printed:
        yield from by_step("Step time, as printed", number, lines, marks, _printed_every(number))
        times.append((lines["step time"], ""))
    if traced is not None:
        yield from _traced(traced, len(measured.analyses), with_idle=measured.tells_idle)
        steps = (traced.t.steps.end - traced.t.steps.start) / 1e9
        times.append((steps, _of(traced.t.trace.rank, len(measured.analyses))))
    if times:
        yield from distribution({"steps": times[0][0]}, times[0][1])


def slowest(watches: Sequence[Watch]) -> Watch | None:
    """Return the rank whose mean step is longest: the others wait for it."""
    return max((w for w in watches if w.count), key=lambda w: float(w.steps.times.mean()), default=None)


def _mean_step(a: Analysis) -> float:
    return float((a.t.steps.end - a.t.steps.start).mean())


def _of(rank: int | None, ranks: int) -> str:
    return f"Of rank {rank}, whose mean step is the longest of {ranks} ranks." if ranks > 1 and rank is not None else ""


def _watched(w: Watch, ranks: int) -> Iterator[Chart]:
    """Yield the steps of a whole run."""
    kept = w.steps.kept
    start, end = w.steps.start[kept], w.steps.end[kept]
    lines: dict[str, Floats64] = {"step time": (end - start) / 1e9}
    if len(w.batches.index):
        step = np.searchsorted(w.steps.end, w.rows.start[w.batches.index], "right")
        wait = np.bincount(step, weights=w.waits.host[w.batches.index], minlength=len(kept) + 1)
        lines["waiting for data"] = wait[: len(kept)][kept] / 1e9
    number = np.flatnonzero(kept) + logs.FIRST_STEP
    marks = (*_pauses(w, phases.SAVE, "checkpoint"), *_pauses(w, phases.EVALUATION, "evaluation"))
    left = int(np.count_nonzero(~kept))
    note = f"{left:,} steps in which whyidle itself held up the job are left out." if left else ""
    note = " ".join(filter(None, (_of(w.log.process.rank, ranks), note)))
    yield from by_step("Step time over the whole run", number, lines, marks, note, w.log.path)


def _pauses(w: Watch, phase: int, kind: MarkKind) -> Iterator[Mark]:
    """Yield the steps in which the training thread was in a phase, the first of them where they are too many."""
    where = logs.stretches(w, phase)
    steps = np.unique(np.searchsorted(w.steps.end, where.start, "right")) + logs.FIRST_STEP
    yield from (Mark(kind, kind, float(step), float(step)) for step in steps[:MARKS].tolist())


def _traced(a: Analysis, ranks: int, *, with_idle: bool) -> Iterator[Chart]:
    """Yield the steps of a trace, and the idle time in each, mean of its GPUs."""
    order = np.argsort(a.t.steps.start, kind="stable")
    start, end, number = (column[order] for column in (a.t.steps.start, a.t.steps.end, a.t.steps.number))
    lines = {"step time": (end - start) / 1e9}
    idle = [union(device.gaps.span.start, device.gaps.span.end) for device in a.devices]
    waits = [device.pieces.of("data_wait") for device in a.devices]
    if with_idle:
        lines["GPU idle"] = _inside(start, end, idle)
    if with_idle and any(len(one) for one in waits):
        lines["idle, waiting for data"] = _inside(start, end, waits)
    trace = a.t.trace
    yield from by_step("Step time of the traced steps", number, lines, (), _of(trace.rank, ranks), trace.path)


def _inside(start: Ints, end: Ints, of_devices: Sequence[Intervals]) -> Floats64:
    total = sum((overlap(start, end, spans) for spans in of_devices), np.zeros(len(start), np.int64))
    return np.asarray(total / max(len(of_devices), 1) / 1e9)


def _printed(curve: Curve) -> tuple[Ints, dict[str, Floats64], tuple[Mark, ...]] | None:
    """Return the steps that a trainer printed, and what it printed between them; None where it printed no times."""
    series = {one.name: one for one in curve.series} if curve.step_log else {}
    times = series.get("step_time_s")
    if times is None:
        return None
    told = np.isfinite(times.value) & (times.value > 0)
    number = beside(series.get("step"), times)[told]
    steps = unrolled(number) if np.isfinite(number).all() else np.empty(0, np.int64)
    if not len(steps) or np.any(np.diff(steps) <= 0):
        steps = np.arange(1, np.count_nonzero(told) + 1)
    lines = {"step time": times.value[told].astype(np.float64)}
    if "data_wait_s" in series:
        lines["waiting for data"] = beside(series["data_wait_s"], times)[told]
    marks = [
        Mark(kind, kind, float(step), float(step))
        for kind in PRINTED
        if kind in series
        for step in _before(series[kind], times.time[told], steps)
    ]
    return steps.astype(np.int64), lines, tuple(marks)


def _before(one: Series, time: Ints, number: Ints) -> list[int]:
    """Return the last step before each time at which something happened, the first of them where they are too many."""
    at = np.searchsorted(time, one.time[one.value > 0], "right") - 1
    return list(np.unique(number[at[at >= 0]])[:MARKS].tolist())


def _printed_every(number: Ints) -> str:
    each = int(np.median(np.diff(number))) if len(number) > 1 else 1
    return f"Printed every {each:,} steps." if each > 1 else ""


def by_step(
    title: str,
    number: Ints,
    lines: Mapping[str, Floats64],
    marks: Sequence[Mark] = (),
    note: str = "",
    timeline: str = "",
) -> Iterator[Chart]:
    """Yield times of each step as a chart; nothing where there are too few.

    Args:
        title: of the chart.
        number: of each step; grows.
        lines: s of each step, by what they are.
        marks: by the number of their step.
        note: what has to be said of it.
        timeline: as `Chart.timeline`.
    """
    if len(number) < FEW or np.any(np.diff(number) <= 0):
        return
    longest = max(float(np.nanmedian(values)) for values in lines.values() if np.isfinite(values).any())
    unit, scale = ("s", 1.0) if longest >= LONG else ("ms", 1e3)
    each = -(-len(number) // POINTS)
    first = np.arange(0, len(number), each)
    x = np.add.reduceat(number, first) / np.diff(first, append=len(number))
    drawn = tuple(_line(label, values * scale, first) for label, values in lines.items())
    said = f"Every point is the mean of {each:,} steps." if each > 1 else ""
    inside = tuple(_kept(mark, x) for mark in marks if number[0] <= mark.start <= number[-1])
    told = " ".join(filter(None, (note, said)))
    yield Chart(title, unit, "step", x, drawn, inside, note=told, timeline=timeline)


def _kept(mark: Mark, x: Floats64) -> Mark:
    """Return a mark where its step is drawn: the first and the last point of many stand for several."""
    at = float(np.clip(mark.start, x[0], x[-1]))
    return replace(mark, start=at, end=at)


def _line(label: str, values: Floats64, first: Ints) -> Line:
    if len(first) == len(values):
        return Line(label, rounded(values))
    known = np.isfinite(values)
    count = np.add.reduceat(known, first, dtype=np.int64)
    mean = np.full(len(first), np.nan)
    np.divide(np.add.reduceat(np.where(known, values, 0.0), first), count, out=mean, where=count > 0)
    low, high = np.fmin.reduceat(values, first), np.fmax.reduceat(values, first)
    return Line(label, rounded(mean), rounded(low), rounded(high), whole_of(values[known]))


def distribution(sides: Mapping[str, Floats64], note: str = "") -> Iterator[Chart]:
    """Yield how step times are distributed: of one run in steps, of several each in percent of its own.

    Args:
        sides: s of each step, by what they are.
        note: what has to be said of them.
    """
    known = {label: values[np.isfinite(values) & (values > 0)] for label, values in sides.items()}
    if min((len(values) for values in known.values()), default=0) < DISTRIBUTED:
        return
    every = np.concatenate(list(known.values()))
    low = float(every.min())
    usual = max(float(np.percentile(values, OUTLIERS)) for values in known.values())
    high = min(float(every.max()), low + BEYOND * (usual - low) if usual > low else usual * BEYOND)
    high = max(high, low * (1 + 1e-6))
    fewest = min(map(len, known.values()))
    edges = np.linspace(low, high, int(np.clip(2 * np.sqrt(fewest), *BARS)) + 1)
    lines = []
    for label, values in known.items():
        counts, _ = np.histogram(values.clip(low, high), edges)
        drawn = counts * (100 / len(values)) if len(known) > 1 else counts.astype(np.float64)
        lines.append(Line(label, drawn, whole=whole_of(values)))
    beyond = int(np.count_nonzero(every > high))
    longer = "1 step" if beyond == 1 else f"{beyond:,} steps"
    more = f"The last bar holds {longer} that took longer, up to {span(float(every.max()))}." if beyond else ""
    note = " ".join(filter(None, (note, more)))
    unit = "% of steps" if len(known) > 1 else "steps"
    middle = (edges[:-1] + edges[1:]) / 2
    yield Chart("How long steps take", unit, "step_time_s", middle, tuple(lines), _medians(known), note=note)


def _medians(sides: Mapping[str, Floats64]) -> tuple[Mark, ...]:
    """Return the median of each as a moment; who has but one distribution needs no name for it."""
    every = {f"median {label}" if len(sides) > 1 else "median": float(np.median(x)) for label, x in sides.items()}
    return tuple(Mark("event", label, at, at) for label, at in every.items())
