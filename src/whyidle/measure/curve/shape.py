"""In which shape one GPU idles: every idle moment belongs to one.

First the start, then the end, then dips that come back, then what a shift of level costs; the rest is steady, moves, or
is too little to have a shape. The parts are seconds of idle time, and their sum is all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from whyidle.measure.curve.change import Change, change
from whyidle.measure.curve.dips import Dips, look
from whyidle.measure.curve.gpus import Gpu
from whyidle.measure.curve.period import Period
from whyidle.measure.curve.samples import Samples, at, levels, runs

ZERO: Final = 5.0  # percent: below it a sample is zero (method 3.2)
LEAST: Final = 10  # samples: fewer have no shape
PAUSE: Final = (60.0, 0.02, 0.2)  # s, of the curve (method 3.2), and most of a short one: what is long at start or end
UNUSUAL: Final = 1.5  # times the longest pause between: what is no longer comes back, and is no start or end
SETTLED: Final = 5  # samples, half of which work, once the GPU works for long
SHIFT: Final = 10.0  # points of utilization: the least other level
STEADY: Final = 8.0  # points, standard deviation (method 3.2: flat)
LOW: Final = 70.0  # percent, 95th percentile: never above it is low (SageMaker's profiler)
BELOW: Final = 95.0  # percent: what is below it idles 5% of the time and more, which is a finding (model.finding)
WIDE: Final = 30.0  # points from the 5th to the 95th percentile: goes up and down
HELD_BYTES: Final = 1e9  # a desktop or an idle context holds 0.1 to 0.6 GB
HELD_PERCENT: Final = 5.0  # of memory
PARTS: Final = ("startup", "held", "dip", "change", "flat", "fluctuating", "correlated", "lag", "rest")


@dataclass(frozen=True, slots=True)
class Held:
    """How a GPU was left at the end."""

    start: int  # index of its first sample
    seconds: float
    known: bool  # whether memory or processes were recorded
    memory_share: float | None


@dataclass(slots=True, eq=False)
class Shape:
    """One GPU's curve, measured. `peers` moves idle time between `parts`, when it has seen all of them."""

    gpu: Gpu
    samples: Samples
    source: str  # the counter that tells how busy
    parts: dict[str, float] = field(default_factory=dict)  # s of idle time, by shape
    low: int = 0  # samples between start-up and end
    high: int = 0
    startup_s: float = 0.0
    held: Held | None = None
    dips: Dips | None = None
    period: Period | None = None
    change: Change | None = None
    spread: tuple[float, float, float, float] | None = None  # 5th, 50th, 95th percentile, deviation, in percent

    @property
    def body(self) -> Samples:
        return self.samples.part(self.low, self.high)


def shape(gpu: Gpu, busy: Samples, source: str, step_s: float | None) -> Shape:
    """Return the shape in which a GPU idles.

    Args:
        gpu: it.
        busy: its utilization, in percent.
        source: the counter that this is.
        step_s: how long a step takes, where a log tells.
    """
    found = Shape(gpu, busy, source, dict.fromkeys(PARTS, 0.0), 0, len(busy))
    idle = (100 - busy.value) / 100 * busy.seconds
    if len(busy) < LEAST:
        found.parts["rest"] = float(idle.sum(dtype=np.float64))
        return found
    _ends(found)
    found.parts["startup"] = float(idle[: found.low].sum(dtype=np.float64))
    tail = "held" if found.held else "rest"
    found.parts[tail] = float(idle[found.high :].sum(dtype=np.float64))
    if found.high - found.low >= LEAST:
        _between(found, idle[found.low : found.high], step_s)
    else:
        found.parts["rest"] += float(idle[found.low : found.high].sum(dtype=np.float64))
    return found


def _ends(found: Shape) -> None:
    """Cut off the start-up and a GPU that was left idle, where they are longer than any pause between."""
    busy = found.samples
    works = busy.value >= ZERO
    length = busy.total_s
    long = max(min(PAUSE[0], PAUSE[2] * length), PAUSE[1] * length)
    if not works.any():
        found.low, found.high, found.held = 0, 0, _held(found.gpu, busy, 0)
        return
    run = int(np.clip(len(busy) // 60, 1, SETTLED))
    ahead = np.convolve(works, np.ones(run), "full")[run - 1 :] * 2 >= run
    if not (works & ahead).any():  # blips: it never works for long
        found.low, found.high, found.held = 0, 0, _held(found.gpu, busy, 0)
        return
    first = int(np.argmax(works & ahead))
    last = len(busy) - int(np.argmax(works[::-1]))
    starts, ends = runs(~works[first:last])
    total = np.concatenate(([0.0], np.cumsum(busy.seconds, dtype=np.float64)))
    pauses = total[ends + first] - total[starts + first]
    least = max(long, UNUSUAL * float(pauses.max(initial=0.0)))
    if total[first] > least:
        found.low, found.startup_s = first, float(total[first])
    if total[-1] - total[last] > least:
        found.high, found.held = last, _held(found.gpu, busy, last)


def _held(gpu: Gpu, busy: Samples, start: int) -> Held | None:
    """Return how the GPU was left from a sample on; None where its memory is free and no process on it."""
    rest = busy.part(start, len(busy))

    def median(name: str) -> float | None:
        one = gpu.counters.get(name)
        value = at(one, rest.time, rest.interval_s * 3) if one is not None else np.full(1, np.nan)
        return None if np.isnan(value).all() else float(np.nanmedian(value))

    used, percent, processes = median("memory_used_bytes"), median("memory_used_percent"), median("processes")
    total = median("memory_total_bytes") or float(gpu.facts.get("memory_bytes", 0) or 0)
    share = percent / 100 if percent is not None else used / total if used is not None and total else None
    known = used is not None or percent is not None or processes is not None
    holds = (used or 0) >= HELD_BYTES or (percent or 0) >= HELD_PERCENT or (processes or 0) >= 1
    return Held(start, rest.total_s, known, share) if holds or not known else None


def _between(found: Shape, idle: np.ndarray, step_s: float | None) -> None:
    """Part the idle time between start and end."""
    body = found.body
    value, left = body.value, np.ones(len(body), bool)
    found.dips, found.period = look(body, step_s)
    if found.dips:
        found.parts["dip"] = float(idle[found.dips.mask].sum(dtype=np.float64))
        left = ~found.dips.mask
    rest, cost = value[left], idle[left]
    if len(rest):
        found.spread = (*levels(rest), float(rest.std()))
    if len(rest) >= LEAST and (moved := change(rest, SHIFT)) and min(moved.before, moved.after) >= ZERO:
        better, lower = max(moved.before, moved.after), np.zeros(len(rest), bool)
        lower[moved.at :] = moved.after < moved.before
        lower[: moved.at] = moved.before < moved.after
        lower |= moved.gradual
        beyond = np.clip(better - rest, 0, None) / 100 * body.seconds[left] * lower
        beyond = np.minimum(beyond, cost)
        found.parts["change"] = float(beyond.sum(dtype=np.float64))
        place = int(np.flatnonzero(left)[moved.at])
        found.change = replace(moved, at=place)
        cost = cost - beyond
        rest = np.clip(rest + lower * abs(moved.after - moved.before), 0, 100)  # as if it had not shifted
    found.parts[kind_of(rest)] += float(cost.sum(dtype=np.float64))


def kind_of(rest: np.ndarray) -> str:
    """Say how the idle time comes that is in no shape of its own."""
    if not len(rest):
        return "rest"
    low, middle, high = levels(rest)
    if high < LOW:
        return "flat"
    steady, idles = float(rest.std()) < STEADY, float(rest.mean(dtype=np.float64)) < BELOW
    if steady or (high - low < WIDE and middle < BELOW):
        return "flat" if idles else "rest"
    return "fluctuating" if high - low >= WIDE or idles else "rest"  # pauses of less than 5% of the samples
