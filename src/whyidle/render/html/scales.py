"""Axes of charts: where they begin and end, and which round numbers stand at them.

web/src/charts/axes.ts does the same for charts that a reader zooms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from whyidle.model.picture import Axis, Chart
from whyidle.render.words import duration

# Between them nobody reads a clock: 1 s to 7 days.
TIMES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)
# Units of which what changes matters, not how far it is from zero.
FLOATING: Final = frozenset({"MHz", "GHz", "°C"})
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CLOSE: Final = 0.12  # of an axis: numbers that touch
# No year above 2999, so that there is a calendar for everything that follows.
_CLOCK: Final = re.compile(r"^([12]\d{3}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?) ?(?:UTC|Z)$")


@dataclass(frozen=True, slots=True)
class Tick:
    """A number at an axis."""

    at: float  # share of the axis, 0-1
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """What an axis shows."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return how far along the axis a value lies, 0-1 for what it shows."""
        return (value - self.low) / (self.high - self.low)

    def at(self, value: float) -> float:
        """Return where a value stands, in percent; what lies beyond stands at the end."""
        if not self.high > self.low or math.isnan(value):
            return 0.0
        return round(min(max(self.share(value), 0.0), 1.0) * 100, 2)

    def ticks(self, count: int = 5) -> list[float]:
        """Return round values on it, about as many as asked for."""
        return list(multiples(self, round_step((self.high - self.low) / count)))


def across(chart: Chart) -> Scale:
    """Return what the x axis of a chart has to show; bins of a distribution are as wide as they lie apart."""
    if not len(chart.x):
        return Scale(0.0, 1.0)
    low, high = float(chart.x[0]), float(chart.x[-1])
    if chart.axis == "step_time_s":
        half = bin_width(chart) / 2
        return Scale(low - half, high + half)
    if high > low:
        return Scale(low, high)
    return Scale(low - 0.5, high + 0.5)


def bin_width(chart: Chart) -> float:
    """Return how wide the bins of a distribution are, in s."""
    if len(chart.x) > 1:
        return float(np.median(np.diff(chart.x)))
    return float(chart.x[0]) * 0.02 or 1e-3 if len(chart.x) else 1e-3


def upward(chart: Chart) -> tuple[Scale, tuple[Tick, ...]]:
    """Return the y axis of a chart: from zero, unless its unit floats, up to its limit where it has one."""
    low, high = _extent(chart)
    if chart.unit not in FLOATING:
        low = min(low, 0.0)
    if chart.upper is not None and high <= chart.upper:
        high = chart.upper
    spread = high - low
    if spread < max(abs(high) * 1e-9, 1e-30):  # all the same, but for what floats cannot tell apart
        spread = abs(high) * 0.1 if abs(high) > 1e-30 else 1.0
    step = 50.0 if chart.unit == "%" and (low, high) == (0.0, 100.0) else round_step(spread / 4)
    low = math.floor(low / step + 1e-9) * step
    if chart.upper is None or high > chart.upper:
        high = math.ceil(high / step - 1e-9) * step
    scale = Scale(low, high if high > low else low + step)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = [Tick(scale.share(value), f"{value:,.{places}f}" if value else "0") for value in multiples(scale, step)]
    if chart.upper == scale.high and ticks[-1].at < 1 - 1e-9:  # a limit that is no round number
        ticks = [tick for tick in ticks if tick.at < 1 - CLOSE]
        places = places if float(chart.upper).is_integer() else max(places, 1)
        ticks.append(Tick(1.0, f"{chart.upper:,.{places}f}"))
    return scale, tuple(ticks)


def along(scale: Scale, axis: Axis, clock: str = "", count: int = 5) -> tuple[Tick, ...]:
    """Return the numbers at an x axis, about as many as asked for."""
    raw = (scale.high - scale.low) / count
    if axis == "s":
        return _times(scale, raw, started(clock))
    step = round_step(raw)
    if axis == "step":
        whole = max(1.0, step)
        return tuple(Tick(scale.share(value), f"{value:,.0f}") for value in multiples(scale, whole))
    return tuple(Tick(scale.share(value), duration(value)) for value in multiples(scale, step) if value >= 0)


def started(clock: str) -> datetime | None:
    """Return the moment that 0 s is, where a chart's clock tells one of a calendar."""
    found = _CLOCK.match(clock)
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(tzinfo=UTC) if found else None
    except ValueError:
        return None  # no day of any calendar


def round_step(raw: float) -> float:
    """Return the least of 1, 2, 5 times a power of ten that is not less."""
    power = 10.0 ** math.floor(math.log10(raw))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= raw * 0.9999)


def multiples(scale: Scale, step: float, offset: float = 0.0) -> Iterator[float]:
    """Yield the multiples of a step, counted from `-offset`, that a scale shows."""
    first = math.ceil((scale.low + offset) / step - 1e-6)
    last = math.floor((scale.high + offset) / step + 1e-6)
    for times in range(first, last + 1):
        yield times * step - offset


def _times(scale: Scale, raw: float, start: datetime | None) -> tuple[Tick, ...]:
    step = round_step(raw) if raw < 1 else float(next((time for time in TIMES if time >= raw), round_step(raw)))
    if start is None or step < 1:
        return tuple(Tick(scale.share(at), time_label(at, step, scale.high)) for at in multiples(scale, step))
    zero = start.timestamp()
    return tuple(Tick(scale.share(at), _hour(zero + at, step)) for at in multiples(scale, step, zero % 604800))


def _hour(moment: float, step: float) -> str:
    when = EPOCH + timedelta(seconds=round(moment))
    if step >= 86400:
        return f"{when:%b} {when.day}"
    return f"{when:%H:%M:%S}" if step < 60 else f"{when:%H:%M}"


def time_label(at: float, step: float, high: float) -> str:
    """Return a time at an axis: "250 ms", "30 s", "1:30 min", "15 min", "2:30 h", "4 h".

    Args:
        at: the time, s.
        step: from one number of the axis to the next.
        high: the last of them, so that all of an axis have one unit.
    """
    if abs(at) < step / 2:
        return "0"
    if step < 1:
        if high < 1:
            size, unit = next((size, unit) for size, unit in ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")) if high >= size)
            return f"{at / size:,.{_places(step / size)}f} {unit}"
        return f"{at:,.{_places(step)}f} s"
    if high <= 120:
        return f"{at:.0f} s"
    whole, unit = (60, "min") if high <= 7200 else (3600, "h")
    if not step % whole:
        return f"{at / whole:.0f} {unit}"
    size, sign = round(abs(at)), "-" if at < 0 else ""
    return f"{sign}{size // whole}:{size % whole // (1 if unit == 'min' else 60):02} {unit}"


def _places(step: float) -> int:
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _extent(chart: Chart) -> tuple[float, float]:
    """Return the least and the largest value that a chart draws; 0 and 0 where nothing was measured."""
    columns = [column for line in chart.lines for column in (line.y, line.low, line.high) if column is not None]
    every = np.concatenate([*columns, np.zeros(0)])
    known = every[np.isfinite(every)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
