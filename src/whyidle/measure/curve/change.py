"""Does a counter shift from one level to another, and stay there?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.model.evidence import Floats, Floats64

BLOCKS: Final = 120  # means that a curve is reduced to: steps that are seen in part average out, a shift stays
COARSE: Final = 12  # means, where samples go up and down too much for that
LEAST: Final = 30  # samples of a segment (method 3.2); of a short curve a fifteenth, and two at least
PENALTY: Final = 3.0  # of log(n) sigma^2 (method 3.2)
DRIFT: Final = 0.9  # correlation of coarse means with time: what goes one way all the while (judgement)
STAYS: Final = 0.8  # of the means of a side, nearer to its level than to the other (judgement)
APART: Final = 3.0  # robust deviations between the levels: they hardly overlap
MAD: Final = 1.4826  # of a normal distribution's deviation
QUANTUM: Final = 1.0  # points, MHz or W: counters are whole numbers, so that no deviation is less


@dataclass(frozen=True, slots=True)
class Change:
    """A shift."""

    at: int  # index of the first sample on the new level
    before: float
    after: float
    gradual: bool = False  # it drifts from one level to the other, and `at` is half way


def change(values: Floats, least_shift: float) -> Change | None:
    """Return the clearest shift of a curve; None where there is none that stays.

    Binary segmentation's first split, by squared error of the rolling median, which a few outliers do not move.

    Args:
        values: in order of time.
        least_shift: what counts as another level, in the counter's unit.
    """
    least = max(int(np.clip(len(values) // 15, 2, LEAST) / max(len(values) // BLOCKS, 1)), 2)
    found = _split(values, BLOCKS, least, least_shift, STAYS)
    if found is None and len(values) >= COARSE * 4:
        found = _split(values, COARSE, COARSE // 3, least_shift, 1.0) or _drift(values, least_shift)
    return found


def _split(values: Floats, blocks: int, least: int, least_shift: float, stays: float) -> Change | None:
    """Return the best split of so many means, at least so many on either side; None where it is no shift."""
    size = max(len(values) // blocks, 1)
    count = len(values) // size
    if count < 2 * least + 2:
        return None
    means = values[: count * size].reshape(count, size).mean(axis=1)
    level = _rolling(np.asarray(means, np.float64))
    sums, squares = np.cumsum(level), np.cumsum(level**2)
    split = np.arange(least, count - least + 1)
    left, right = sums[split - 1], sums[-1] - sums[split - 1]
    between = left**2 / split + right**2 / (count - split) - sums[-1] ** 2 / count
    best = int(split[np.argmax(between)])
    one, other = level[:best], level[best:]
    noise = max(MAD * float(np.median(abs(np.diff(level)))) / np.sqrt(2), QUANTUM)
    before, after = float(np.median(one)), float(np.median(other))
    spread = max(_mad(one), _mad(other), QUANTUM)
    ends = float(np.median(other[-max(len(other) // 4, 1) :]))
    clear = between.max() > PENALTY * np.log(count) * noise**2 and abs(after - before) >= APART * spread
    clear = clear and _gain(means, best) > PENALTY * np.log(count)
    sides = (abs(one - before) < abs(one - after)).mean(), (abs(other - after) < abs(other - before)).mean()
    back = abs(ends - after) >= abs(after - before) / 2 or min(sides) < stays
    if squares[-1] == 0 or not clear or back or abs(after - before) < least_shift:
        return None
    return Change(best * size, before, after)


def _gain(means: Floats, at: int) -> float:
    """Return the squared error that a split takes away, in variances of what it leaves: all of it, outliers, too."""
    one, other = means[:at].astype(np.float64), means[at:].astype(np.float64)
    left = (((one - one.mean()) ** 2).sum() + ((other - other.mean()) ** 2).sum()) / max(len(means) - 2, 1)
    gained = len(one) * len(other) / len(means) * (one.mean() - other.mean()) ** 2
    return float(gained / max(left, QUANTUM**2))


def _drift(values: Floats, least_shift: float) -> Change | None:
    """Return how a curve goes from one level to another all the while; None where it does not."""
    size = len(values) // COARSE
    means = values[: COARSE * size].reshape(COARSE, size).mean(axis=1).astype(np.float64)
    quarter = COARSE // 4
    before, after = float(means[:quarter].mean()), float(means[-quarter:].mean())
    if abs(after - before) < least_shift or abs(np.corrcoef(np.arange(COARSE), means)[0, 1]) < DRIFT:
        return None
    return Change(COARSE * size // 2, before, after, gradual=True)


def _rolling(values: Floats64) -> Floats64:
    """Return the median of each three values."""
    if len(values) < 3:
        return values
    padded = np.concatenate((values[:1], values, values[-1:]))
    return np.median(np.stack((padded[:-2], padded[1:-1], padded[2:])), axis=0)


def _mad(values: Floats64) -> float:
    """Return a robust standard deviation."""
    return MAD * float(np.median(abs(values - np.median(values))))
