"""What the GPUs of a job show together: one that is apart from its peers, and dips that all have at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.curve.dips import DIP
from whyidle.measure.curve.shape import LEAST, Shape, kind_of
from whyidle.model.evidence import Floats64, Ints

WINDOWS: Final = 60  # at most, of five samples at least: noise of samples averages out, what lasts stays
LONG: Final = 8  # longer ones, in which what samples of a part of steps show for a while averages out, too
FEWEST: Final = 5
POINTS: Final = 5.0  # of utilization (method 3.2)
SPREAD: Final = 3.0 * 1.4826  # MAD of the GPUs (method 3.2)
PAIR: Final = 10.0  # points between two GPUs, of which no spread is known
MOSTLY: Final = 0.75  # of the windows: persistently (judgement)
RELATIVE: Final = {
    "sm_clock_mhz": 0.10,
    "power_w": 0.25,
}  # of the peers': chips draw up to 15% more or less (judgement)
SPEED: Final = {
    "sm_clock_mhz": 1.0,
    "power_w": 1 / 3,
}  # exponent of the speed: power goes with the clock cubed at least
WORDS: Final = {"sm_clock_mhz": "SM clock", "power_w": "power"}
LOADED: Final = 80.0  # percent: where all are as busy, clocks can be compared
TOGETHER: Final = 0.8  # of the GPUs (method 3.2)
MOMENTS: Final = 4_000_000  # that are told apart: bounds what recordings years apart take of memory
TAKEN: Final = ("dip", "change", "flat", "fluctuating", "rest")  # of which idle time of a lagging GPU is a part

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lag:
    """The GPU that is furthest from its peers."""

    shape: Shape
    counter: str
    value: float
    peers: float
    windows_share: float
    slow_share: float = 0.0  # of the curve, that a lower clock takes at most
    gpus: int = 1  # that are apart like this one


def aligned(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the curves that can be held against each other: on one clock, and at one time for the most part."""
    able = [one for one in shapes if len(one.samples) >= LEAST]
    able = [one for one in able if one.gpu.clock == able[0].gpu.clock]
    if len(able) < 2:
        return []
    starts = np.array([one.samples.time[0] for one in able])
    ends = np.array([one.samples.time[-1] for one in able])
    low, high = float(np.median(starts)), float(np.median(ends))
    kept = [one for one, a, b in zip(able, starts, ends, strict=True) if min(b, high) - max(a, low) > (high - low) / 2]
    return kept if len(kept) > 1 else []


def windows(together: Sequence[Shape], most: int = WINDOWS) -> Floats64:
    """Return the edges of windows over the time that all GPUs have, in ns."""
    columns = [one.samples for one in together]
    low, high = max(int(one.time[0]) for one in columns), min(int(one.time[-1]) for one in columns)
    count = int(np.clip(min(len(one) for one in columns) // FEWEST, 1, most))
    return np.linspace(low, high + 1, count + 1)


def mean_of(time: Ints, value: NDArray[np.floating], edges: Floats64) -> Floats64:
    """Return the means of a counter in windows; NaN where it has no sample."""
    known = np.isfinite(value)
    if not known.all():
        time, value = time[known], value[known]
    cut = np.searchsorted(time, edges)
    total = np.concatenate(([0.0], np.cumsum(value, dtype=np.float64)))
    many = np.diff(cut)
    found = np.full(len(many), np.nan)
    np.divide(total[cut[1:]] - total[cut[:-1]], many, out=found, where=many > 0)
    return found


def lagging(shapes: Sequence[Shape]) -> Lag | None:
    """Find the GPU that is apart from the others, move what they idle for it to their part `lag`, and return it."""
    together = aligned(shapes)
    if not together:
        return None
    edges = windows(together)
    means = np.stack([mean_of(one.samples.time, one.samples.value, edges) for one in together])
    told = ~np.isnan(means).any(axis=0)  # windows of which all GPUs are known
    if not told.any():
        return None
    apart = _apart(means[:, told], POINTS, PAIR)
    if apart is None:
        wide = windows(together, LONG)
        long = np.stack([mean_of(one.samples.time, one.samples.value, wide) for one in together])
        apart = None if np.isnan(long).any() else _apart(long, POINTS, PAIR)
    if apart is not None:
        rows, share = apart
        means = means[:, told]
        _blame(together, means, rows)
        value, peers = float(means[rows[0]].mean()), float(np.median(np.delete(means, rows, axis=0), axis=0).mean())
        return Lag(together[rows[0]], "utilization", value, peers, share, gpus=len(rows))
    return _slower(together, means, edges)


def _apart(means: Matrix, least: float, pair: float, *, below: bool = False) -> tuple[list[int], float] | None:
    """Return the row that is furthest from the median in most windows and those as low, and in how many it is."""
    off = means - np.median(means, axis=0)
    if len(means) == 2:
        bound = np.full(means.shape[1], pair / 2)
        off = np.minimum(off, 0)  # of two the one with less is told
    else:
        bound = np.maximum(least, SPREAD * np.median(abs(off), axis=0))
    lower = (off < -bound).mean(axis=1)
    shares = np.maximum(lower, 0 if below else (off > bound).mean(axis=1))
    often = np.flatnonzero(shares >= MOSTLY)
    if not len(often):
        return None
    row = int(often[np.argmax(abs(off[often].mean(axis=1)))])
    alike = [int(i) for i in often if i != row and lower[row] >= MOSTLY and lower[i] >= MOSTLY]
    return [row, *alike], float(shares[row])


def _blame(together: Sequence[Shape], means: Matrix, rows: Sequence[int]) -> None:
    """Move idle time to `lag`: of the GPUs that are less busy, else of those that wait for the one that never does."""
    average = means.mean(axis=1)
    others, first = float(np.median(np.delete(average, rows))), float(average[rows[0]])
    late = first < others
    for i in rows if late else [i for i in range(len(together)) if i not in rows]:
        reference = others if late else first
        _move(together[i], max(reference - float(average[i]), 0.0) / 100 * together[i].samples.total_s)


def _move(one: Shape, seconds: float) -> None:
    """Move so much idle time to `lag`, from each part as much of it."""
    there = sum(one.parts[name] for name in TAKEN)
    if there <= 0:
        return
    left = 1 - min(seconds / there, 1.0)
    for name in TAKEN:
        one.parts["lag"] += one.parts[name] * (1 - left)
        one.parts[name] *= left


def _slower(together: Sequence[Shape], means: Matrix, edges: Floats64) -> Lag | None:
    """Return the GPU whose clock, else whose power, is below that of its peers while all are busy."""
    for name, relative in RELATIVE.items():
        if not all(name in one.gpu.counters for one in together):
            continue
        counters = [one.gpu.counters[name] for one in together]
        values = np.stack([mean_of(one.time, one.value, edges) for one in counters])
        loaded = (np.min(means, axis=0) >= LOADED) & ~np.isnan(values).any(axis=0)  # NaN is not above
        values = values[:, loaded]
        if not values.size or loaded.mean() < 0.5:
            continue
        level = float(np.median(values))
        apart = _apart(values, relative * level, 2 * relative * level, below=True) if level > 0 else None
        if apart is None:
            continue
        rows, share = apart
        row = rows[0]
        value, peers = float(values[row].mean()), float(np.median(np.delete(values, rows, axis=0)))
        busy = float(means[row, loaded].mean()) / 100
        slow = (
            max(1 - (max(value, 0.0) / peers) ** SPEED[name], 0.0) * busy * float(loaded.mean()) if peers > 0 else 0.0
        )
        return Lag(together[row], WORDS[name], value, peers, share, slow, len(rows))
    return None


def correlated(shapes: Sequence[Shape]) -> float | None:
    """Move idle time of dips that all GPUs have together and that have no interval; return how many of dips those are.

    None where there are no several GPUs, or no dips.
    """
    together = [one for one in aligned(shapes) if one.high - one.low >= LEAST]
    if len(together) < 2:
        return None
    low = min(int(one.samples.time[0]) for one in together)
    high = max(int(one.samples.time[-1]) for one in together)
    step = max(*(one.samples.interval_s * 1e9 for one in together), (high - low) / MOMENTS)
    size = int((high - low) / step) + 2
    dipping, there = np.zeros(size, np.int32), np.zeros(size, np.int32)
    for one in together:
        place = _place(one, low, step)
        there[place] += 1
        dipping[place[one.body.value < DIP]] += 1
    any_, all_ = dipping > 0, (dipping >= TOGETHER * there) & (there > 1)
    if not any_.any():
        return None
    share = float(all_[any_].mean())
    if share >= TOGETHER * TOGETHER:
        for one in together:
            here = (one.body.value < DIP) & all_[_place(one, low, step)]
            for name in ("fluctuating", "rest"):
                idle = float(((100 - one.body.value[here]) / 100 * one.body.seconds[here]).sum(dtype=np.float64))
                moved = min(idle, one.parts[name]) if not one.dips else 0.0
                one.parts[name] -= moved
                one.parts["correlated"] += moved
                if moved:
                    left = one.parts[name]  # is that of the time between the dips
                    one.parts[name] = 0.0
                    one.parts[kind_of(one.body.value[~here])] += left
                    break
    return share


def _place(one: Shape, low: int, step: float) -> NDArray[np.int64]:
    return np.rint((one.body.time - low) / step).astype(np.int64)
