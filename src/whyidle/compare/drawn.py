"""What a page draws of two sides together: their steps beside each other, and how the times of both are distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whyidle.compare.arms import Repeat, middle
from whyidle.compare.pace import Pace
from whyidle.model.evidence import Floats64, Ints
from whyidle.model.picture import Chart
from whyidle.picture.steps import by_step, distribution

SIDES: Final = ("before", "after")
COMMON: Final = 0.5  # of the steps of the shorter: so many have a number that the other has, or both count from 1


def charts(before: Sequence[Repeat], after: Sequence[Repeat]) -> tuple[Chart, ...]:
    """Return the charts of two sides; none where nothing tells of the steps of both."""
    if any(one.pace is None or one.pace.per != "step" for one in (*before, *after)):
        return ()
    steady = {
        label: np.concatenate([one.steady for one in side]) for label, side in zip(SIDES, (before, after), strict=True)
    }
    paces = [pace for side in (before, after) if (pace := middle(side).pace) is not None]
    several = len(before) > 1 or len(after) > 1
    return (*_beside(paces, several), *distribution(steady))


def _beside(paces: Sequence[Pace], several: bool) -> Iterator[Chart]:
    """Yield the steps of both sides over their numbers, as far as one of the two goes."""
    (one, first), (other, second) = map(_numbered, paces)
    common = len(np.intersect1d(one, other)) >= COMMON * min(len(one), len(other))
    if not common:
        one, other = np.arange(1, len(one) + 1), np.arange(1, len(other) + 1)
    number = np.union1d(one, other)
    lines = {}
    for label, own, seconds in zip(SIDES, (one, other), (first, second), strict=True):
        lines[label] = np.full(len(number), np.nan)
        lines[label][np.searchsorted(number, own)] = seconds
    said = ["Of each side the repeat whose mean step is in the middle."] if several else []
    if not common:
        said.append("The steps of both count from the first that was recorded.")
    if any(pace.dropped for pace in paces):
        counts = " and ".join(dict.fromkeys(f"{pace.dropped:,}" for pace in paces))
        said.append(f"The first of each side are warm-up ({counts}): drawn, but not compared.")
    yield from by_step("Step time, before and after", number, lines, note=" ".join(said))


def _numbered(pace: Pace) -> tuple[Ints, Floats64]:
    """Return the numbers of steps in order, and how long they took; they count from 1 where their own are not known."""
    number = np.arange(1, len(pace.seconds) + 1) if pace.number is None else pace.number
    _, first = np.unique(number, return_index=True)
    return number[first], pace.seconds[first]
