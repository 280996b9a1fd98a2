"""Counters over time as charts: as few points as a screen shows, of many GPUs lowest, median and highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Floats64, Ints
from whyidle.model.picture import Chart, Line, Mark, Whole
from whyidle.picture.clock import Zero

POINTS: Final = 600  # of a line at most
POINTS_LEAST: Final = 120
NUMBERS: Final = 60_000  # of a page, in all: they stand in it as text
LINES: Final = 8  # of a chart; of more GPUs three are drawn
BANDS: Final = 3  # lines of a chart, up to which the least and the most of each point are drawn
GAP: Final = 3.0  # intervals: over a longer pause between samples no line is drawn (as measure.curve.samples)
DIGITS: Final = 4  # that a chart can show
WHOLE: Final = 0.9  # of a chart: a band over so much of it tells no place
SMALLEST: Final = 100  # decimals: what lies below is 0 on any screen


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a chart is of."""

    title: str
    unit: str
    scale: float = 1.0  # from the unit of its series
    upper: float | None = None
    least: float = 0.0  # of the series' unit: what never exceeds it is not drawn, but named as near zero


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """One counter of a GPU, a machine or a job."""

    name: str  # of its quantity
    label: str
    time: Ints  # ns from the zero; grows
    value: Floats64  # of the series' unit; NaN where not measured
    zero: Zero
    upper: float | None = None  # of the series' unit, where it is known


def chart(
    quantity: Quantity, counters: Sequence[Counter], points: int = POINTS, marks: Sequence[Mark] = ()
) -> Chart | None:
    """Return counters of one quantity with one zero as a chart; None where nothing was measured.

    Args:
        quantity: what they are of.
        counters: of which each is a line.
        points: that a line may have.
        marks: on their clock.
    """
    told = [one for one in counters if np.count_nonzero(np.isfinite(one.value)) > 1]
    if not told:
        return None
    shown, note = _few(told)
    x, lines, every = _lines(shown, quantity.scale, points)
    uppers = [one.upper * quantity.scale for one in counters if one.upper is not None]
    zero = told[0].zero
    return Chart(
        title=quantity.title,
        unit=quantity.unit,
        axis="s",
        x=x,
        lines=lines,
        marks=tuple(mark for mark in marks if _tells(mark, float(x[0]), float(x[-1]))),
        group=zero.group,
        clock=zero.said,
        note=" ".join(filter(None, (note, every))),
        upper=quantity.upper if quantity.upper is not None else max(uppers, default=None),
    )


def _tells(mark: Mark, low: float, high: float) -> bool:
    """Say whether a mark is on a chart, and not a shape of all that there is on it."""
    whole = mark.kind == "shape" and mark.end - mark.start >= WHOLE * (high - low)
    return mark.end >= low and mark.start <= high and not whole


def points_for(lines: int) -> int:
    """Return how many points each of so many lines of a page may have."""
    return int(np.clip(NUMBERS // max(lines * 3, 1), POINTS_LEAST, POINTS))


def whole_of(values: Floats64) -> Whole | None:
    """Return what measured values are, all of them; None where there are none."""
    if not len(values):
        return None
    return Whole(len(values), float(values.min()), float(values.mean()), float(values.max()))


def rounded(values: NDArray[np.float64]) -> Floats64:
    """Return numbers with the digits that a chart can show."""
    known = np.isfinite(values) & (values != 0)
    digits = np.zeros(len(values))
    digits[known] = (DIGITS - 1 - np.floor(np.log10(np.abs(values[known])))).clip(-SMALLEST, SMALLEST)
    return np.asarray(np.round(values * 10.0**digits) / 10.0**digits)


def _few(counters: Sequence[Counter]) -> tuple[list[Counter], str]:
    """Return the counters that are drawn, and a sentence that says which; empty where all are."""
    if len(counters) <= LINES:
        return list(counters), ""
    ordered = sorted(counters, key=lambda one: float(np.nanmean(one.value)))
    named = (("lowest", ordered[0]), ("median", ordered[len(ordered) // 2]), ("highest", ordered[-1]))
    shown = [
        Counter(one.name, f"{which}: {one.label}", one.time, one.value, one.zero, one.upper) for which, one in named
    ]
    return shown, f"3 of {len(counters):,} are drawn: those with the lowest, the median and the highest mean."


def _lines(counters: Sequence[Counter], scale: float, points: int) -> tuple[Floats64, tuple[Line, ...], str]:
    """Return x in s, the lines over it, and what a point is, where it is more than a sample."""
    known = [(one.time[kept], one.value[kept] * scale) for one in counters for kept in [np.isfinite(one.value)]]
    first, spacing = known[0][0], np.diff(known[0][0])
    same = len(first) <= points and all(np.array_equal(time, first) for time, _ in known)
    if same and spacing.max() <= GAP * np.median(spacing):
        as_is = (Line(one.label, rounded(value)) for one, (_, value) in zip(counters, known, strict=True))
        return first / 1e9, tuple(as_is), ""
    low, high = min(int(time[0]) for time, _ in known), max(int(time[-1]) for time, _ in known)
    interval = max(float(np.median(np.diff(time))) for time, _ in known)
    count = int(np.clip((high - low) / max(interval, 1.0) + 1, 2, points))
    bands = len(counters) <= BANDS
    lines = tuple(
        _line(one.label, time, value, (low, high), count, interval, bands)
        for one, (time, value) in zip(counters, known, strict=True)
    )
    each = max(len(time) for time, _ in known) / count
    said = f"Every point is the mean of about {each:,.0f} samples." if each >= 1.5 else ""
    return (low + (np.arange(count) + 0.5) * (high - low) / count) / 1e9, lines, said


def _line(
    label: str, time: Ints, value: Floats64, bounds: tuple[int, int], count: int, interval: float, bands: bool
) -> Line:
    """Return the mean of each of equal parts of the time, and the least and the most of those that hold several."""
    low, high = bounds
    width = (high - low) / count
    part = np.minimum(((time - low) / max(width, 1e-9)).astype(np.int64), count - 1)
    size = np.bincount(part, minlength=count)
    here = np.flatnonzero(size)
    first = np.searchsorted(part, here)
    y = np.full((3, count), np.nan)
    y[0, here] = np.add.reduceat(value, first) / size[here]
    y[1, here], y[2, here] = np.minimum.reduceat(value, first), np.maximum.reduceat(value, first)
    before = np.maximum.accumulate(np.where(size > 0, np.arange(count), -1))
    hold = (before >= 0) & (np.arange(count) - before <= GAP * interval / max(width, 1e-9))
    hold &= np.arange(count) <= here[-1]
    y[:, hold] = y[:, before[hold]]
    if size.max() < 2:
        return Line(label, rounded(y[0]))
    if not bands:
        return Line(label, rounded(y[0]), whole=whole_of(value))
    return Line(label, rounded(y[0]), rounded(y[1]), rounded(y[2]), whole_of(value))
