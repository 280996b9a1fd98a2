"""Dips of utilization to zero that come back at one interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.curve.period import ALIASED, LEAST_CYCLES, LEAST_SAMPLES, Period, period
from whyidle.measure.curve.samples import Samples, levels, runs
from whyidle.model.evidence import Ints

DIP: Final = 10.0  # percent: below it the GPU does next to nothing (method 3.2)
PEAK: Final = 30.0  # percent, 95th percentile: what lies so low has no dips
DEEP: Final = 20.0  # points from the 5th to the 95th percentile, from which a period is looked for
LONG: Final = 0.5  # of a long dip's length (90th percentile): dips as long as that are of one kind
NEAR: Final = 0.15  # of the interval: as far from a multiple of it a dip may come
OFTEN: Final = 0.8  # of the intervals, that have to be so near (judgement: Poisson's have 0.3)
REST: Final = 3.0  # intervals before the first dip and after the last at most: else a part has the rhythm
SAME: Final = 0.05  # of the period: intervals that are it (method 3.2)
ONCE: Final = 0.6  # of the intervals, that are the interval itself
EXPECTED: Final = (0.4, 2.5)  # dips per period that are dips of that period


@dataclass(frozen=True, slots=True, eq=False)
class Dips:
    """Regular dips of one GPU."""

    mask: NDArray[np.bool_]  # samples in dips and at their edges
    count: int
    length_s: float  # median
    interval_s: float  # median
    period: Period | None
    aliased: bool
    longest: tuple[int, int]  # samples of the longest


def look(body: Samples, step_s: float | None) -> tuple[Dips | None, Period | None]:
    """Return the regular dips of a curve without start-up and end, and its period, each None where it has none."""
    low, _, high = levels(body.value)
    below = body.value < DIP
    starts, ends = runs(below)
    found = period(body.even(), body.interval_s, step_s) if high - low >= DEEP else None
    if high < PEAK or len(starts) < LEAST_CYCLES:
        return None, found
    seconds = np.concatenate(([0.0], np.cumsum(body.seconds, dtype=np.float64)))
    lengths = seconds[ends] - seconds[starts]
    if found:
        expected = body.total_s / found.seconds
        if EXPECTED[0] * expected <= len(starts) <= EXPECTED[1] * expected:
            return _dips(body, starts, ends, lengths, _between(body, starts, found.seconds), found), found
    kept, interval = _regular(body, starts, lengths)
    if interval is None:
        return None, found
    return _dips(body, starts[kept], ends[kept], lengths[kept], interval, None), found


def _between(body: Samples, starts: Ints, period_s: float) -> float:
    """Return the interval of dips by the first and the last of them: a spectrum of a few cycles is off by a percent."""
    span = float(body.time[starts[-1]] - body.time[starts[0]]) / 1e9
    exact = span / max(round(span / period_s), 1)
    return exact if abs(exact - period_s) <= SAME * period_s else period_s


def _regular(body: Samples, starts: Ints, lengths: NDArray[np.float64]) -> tuple[NDArray[np.bool_], float | None]:
    """Return the long dips, and their interval where it is one; one that is missed or two that are merged may be."""
    kept = lengths >= LONG * np.percentile(lengths, 90)
    between = np.diff(body.time[starts[kept]]) / 1e9
    if len(between) < LEAST_CYCLES - 1:
        return kept, None
    interval = float(np.median(between))
    times = np.round(between / interval)
    near = abs(between - np.maximum(times, 1) * interval) <= NEAR * interval
    enough = near.mean() >= OFTEN and (near & (times == 1)).mean() >= ONCE
    at = body.time[starts[kept]]
    enough &= max(at[0] - body.time[0], body.time[-1] - at[-1]) / 1e9 <= REST * interval
    return kept, interval if enough and interval >= LEAST_SAMPLES * body.interval_s else None


def _dips(
    body: Samples,
    starts: Ints,
    ends: Ints,
    lengths: NDArray[np.float64],
    interval_s: float,
    found: Period | None,
) -> Dips:
    size = len(body) + 1  # the sample before and after is partly of the dip
    mask = np.bincount(np.maximum(starts - 1, 0), minlength=size) - np.bincount(
        np.minimum(ends + 1, size - 1), minlength=size
    )
    longest = int(np.argmax(lengths))
    short = interval_s < ALIASED * body.interval_s
    return Dips(
        mask=np.cumsum(mask[:-1]) > 0,
        count=len(starts),
        length_s=float(np.median(lengths)),
        interval_s=interval_s,
        period=found,
        aliased=found.aliased if found else short,
        longest=(int(starts[longest]), int(ends[longest])),
    )
