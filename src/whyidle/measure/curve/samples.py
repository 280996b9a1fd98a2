"""A counter as samples that stand for time: what each covers, and where nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Floats, Floats64, Ints, Series

GAP: Final = 3.0  # intervals: a longer pause between samples is unknown time (method 3.2)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Values that were measured, in order of time. A sample stands for the time since the one before it."""

    time: Ints  # ns
    value: Floats
    seconds: Floats  # that each stands for; after a gap one interval
    interval_s: float  # median; 0 of a single sample
    gaps: int  # pauses of more than three intervals
    gap_s: float  # in them, unknown
    unknown_s: float = 0.0  # gap_s, and where samples hold no value: between others, before the first, after the last

    def __len__(self) -> int:
        return len(self.time)

    @property
    def total_s(self) -> float:
        """Return the time that the samples stand for."""
        return float(self.seconds.sum(dtype=np.float64))

    @property
    def mean(self) -> float:
        """Return the mean over time."""
        total = self.total_s
        return float((self.value * self.seconds).sum(dtype=np.float64) / total) if total else float(self.value.mean())

    def part(self, low: int, high: int) -> Samples:
        """Return the samples from one index to before another."""
        cut = slice(low, high)
        return Samples(self.time[cut], self.value[cut], self.seconds[cut], self.interval_s, 0, 0.0)

    def even(self) -> Floats:
        """Return the values at equal intervals, each the nearest sample: the longest stretch without a gap."""
        if self.interval_s <= 0:
            return self.value
        step = self.interval_s * 1e9
        ends = np.flatnonzero(np.diff(self.time) > GAP * step)
        bounds = np.concatenate(([0], ends + 1, [len(self)]))
        longest = int(np.argmax(np.diff(bounds)))
        low, high = int(bounds[longest]), int(bounds[longest + 1])
        time, value = self.time[low:high], self.value[low:high]
        spacing = np.diff(time)
        if len(spacing) and abs(spacing - step).max() <= 0.01 * step:
            return value
        wanted = time[0] + np.arange(int((time[-1] - time[0]) / step) + 1) * step
        after = np.searchsorted(time, wanted).clip(1, len(time) - 1) if len(time) > 1 else np.zeros(1, np.int64)
        nearer = np.where(wanted - time[after - 1] <= time[after] - wanted, after - 1, after)
        return np.asarray(value[nearer], np.float32)


def samples(
    one: Series, *, scale: float = 1.0, low: float = -np.inf, high: float = np.inf, like: Samples | None = None
) -> Samples:
    """Return what was measured of a counter; values are scaled, then clipped. NaN is left out: unknown.

    `like`: those of another counter, whose times may be the same and then are not held twice.
    """
    known = np.isfinite(one.value)
    time = one.time if known.all() else one.time[known]
    value = one.value if known.all() else one.value[known]
    column = value.astype(np.float32)
    if scale != 1.0:
        column *= np.float32(scale)
    np.clip(column, low, high, out=column)
    if like is not None and np.array_equal(like.time, time):
        return replace(like, value=column, unknown_s=like.gap_s + _empty(one, known, like.seconds, like.interval_s))
    if len(time) < 2:
        empty = (int(one.time[-1]) - int(one.time[0])) / 1e9 if len(one.time) else 0.0
        return Samples(time, column, np.zeros(len(time), np.float32), 0.0, 0, 0.0, empty)
    spacing = np.diff(time)
    interval = float(np.median(spacing)) / 1e9
    seconds = (np.concatenate(([interval * 1e9], spacing)) / 1e9).astype(np.float32)
    late = seconds > GAP * interval
    gap_s = float(seconds[late].sum(dtype=np.float64)) - float(late.sum()) * interval
    seconds[late] = interval
    gap_s = max(gap_s, 0.0)
    return Samples(
        time, column, seconds, interval, int(late.sum()), gap_s, gap_s + _empty(one, known, seconds, interval)
    )


def _empty(one: Series, known: NDArray[np.bool_], seconds: Floats, interval_s: float) -> float:
    """Return the time in which samples were taken that hold no value, in s, but for gaps."""
    if known.all():
        return 0.0
    place = np.flatnonzero(known)
    ends = int(one.time[place[0]]) - int(one.time[0]) + int(one.time[-1]) - int(one.time[place[-1]])
    after = np.flatnonzero(np.diff(place) > 1) + 1
    return ends / 1e9 + float(np.clip(seconds[after] - interval_s, 0, None).sum(dtype=np.float64))


def at(one: Series, time: Ints, within_s: float) -> Floats64:
    """Return a counter at other times, each the nearest value; NaN where none is that near."""
    first = int(np.searchsorted(one.time, time[0])) if len(time) else 0
    if np.array_equal(one.time[first : first + len(time)], time):
        return one.value[first : first + len(time)]
    after = np.searchsorted(one.time, time).clip(0, len(one.time) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.where(abs(time - one.time[before]) <= abs(one.time[after] - time), before, after)
    value = one.value[nearer].astype(np.float64)
    value[abs(one.time[nearer] - time) > within_s * 1e9] = np.nan
    return value


def runs(mask: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return first index and index after the last of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return edges[::2], edges[1::2]


def levels(percent: Floats) -> tuple[float, float, float]:
    """Return the 5th, 50th and 95th percentile of utilization, to a tenth of a point: counted, which sorts nothing."""
    counts = np.cumsum(np.bincount((percent * 10 + 0.5).astype(np.int32), minlength=1001))
    low, middle, high = np.searchsorted(counts, np.array((0.05, 0.5, 0.95)) * counts[-1]) / 10
    return float(low), float(middle), float(high)
