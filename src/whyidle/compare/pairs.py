"""Losses of the same steps in two runs, and what of them is known before anything is tested."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.compare.pairing import CHANCE, pairing
from whyidle.measure.loss import Losses
from whyidle.model.evidence import Floats64, Ints

HUGE: Final = 1e100  # a larger loss is no number: sums of its squares are none
LAST: Final = 200  # pairs that are compared: docs/learning.md
FEWEST: Final = 30  # pairs: fewer show nothing, neither order nor difference (judgement)
SHIFTS: Final = 20  # steps by which two runs may count apart: from 0 and from 1, or after a few to warm up (judgement)
UNIT: Final = 1.4  # times another loss, from the first pairs on: nats and bits lie 1.44 apart (judgement)
STEADY: Final = 0.1  # by which share such a ratio may differ between the first pairs and the last (judgement)
FIRST: Final = 10  # pairs, whose ratio is that of the beginning


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Losses of the same steps, all finite."""

    step: Ints
    before: Floats64
    after: Floats64

    def __len__(self) -> int:
        return len(self.step)

    @property
    def difference(self) -> Floats64:
        """Return after - before."""
        return self.after - self.before

    @property
    def scale(self) -> float:
        """Return what a share of the loss is a share of."""
        return abs(float(self.before.mean()))

    @property
    def start(self) -> float:
        """Return by which share they differ in the first step, before anything was learnt; NaN: it is not there."""
        if not len(self) or self.step[0] > 1:
            return math.nan
        return abs(float(self.difference[0])) / max(abs(float(self.before[0])), 1e-300)

    @property
    def last(self) -> Pairs:
        """Return the last of them, which are compared."""
        return self.part(slice(-LAST, None))

    def part(self, rows: slice) -> Pairs:
        """Return some of them."""
        return Pairs(self.step[rows], self.before[rows], self.after[rows])


def finite(loss: Floats64) -> NDArray[np.bool_]:
    """Say which losses are numbers that can be reckoned with."""
    return np.asarray(np.abs(loss) < HUGE)


def paired(before: Losses, after: Losses) -> Pairs:
    """Return the losses of the steps that both have."""
    step, i, j = np.intersect1d(before.step, after.step, assume_unique=True, return_indices=True)
    one, other = before.loss[i], after.loss[j]
    kept = finite(one) & finite(other)
    return Pairs(step[kept], one[kept], other[kept])


def shift(before: Losses, after: Losses) -> int:
    """Return by how many steps AFTER counts ahead of BEFORE; 0 where the same steps are pairs, or none are.

    One run may count from 0 and the other from 1, or take some steps more to warm up. As many are tried, it takes so
    much less chance to believe it.
    """
    if _alike(before, after, 0) is not None:
        return 0
    tries = [by for size in range(1, SHIFTS + 1) for by in (size, -size)]
    found = {by: alike for by in tries if (alike := _alike(before, after, by, CHANCE / len(tries))) is not None}
    return max(found, key=lambda by: found[by], default=0)


def _alike(before: Losses, after: Losses, by: int, chance: float = CHANCE) -> float | None:
    """Return how alike losses are if AFTER counts ahead by so many steps; None where that shows no pairs."""
    last = paired(before, moved(after, by)).last
    if len(last) < FEWEST:
        return None
    found = pairing(last.before, last.after)
    return found.correlation if found.shown and found.chance < chance else None


def moved(after: Losses, by: int) -> Losses:
    """Return losses as if steps were counted from so many later."""
    return replace(after, step=after.step - by) if by else after


def empty_of_meaning(last: Pairs, margin: float) -> str:
    """Return why equal losses would show nothing: they never change, or are rounded too much; "" where they would."""
    values = np.unique(np.concatenate((last.before, last.after)))
    for name, side in (("BEFORE", last.before), ("AFTER", last.after)):
        if side.min() == side.max():
            return f"the loss of {name} is {side[0]:.4g} in each of the last {len(last):,} steps, which shows nothing."
    # Rounding cancels out in a mean where losses vary by more than its step.
    step = float(np.diff(values).min())
    if step / 2 > margin and float(last.before.std()) < step / 2:
        return f"losses are told in steps of {step:.3g}, which is too coarse to show a difference of {margin:.3g}."
    return ""


def another_unit(pairs: Pairs) -> float | None:
    """Return by what factor AFTER's loss is another one all along; None where it is not."""
    first, last = pairs.part(slice(0, FIRST)), pairs.last
    if (np.sign(pairs.before) * np.sign(pairs.after) <= 0).any():
        return None
    one, other = (float(np.median(part.after / part.before)) for part in (first, last))
    if max(one, 1 / one) < UNIT or abs(one / other - 1) > STEADY:
        return None
    return other
