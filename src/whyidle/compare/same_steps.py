"""The steps that two runs have in common, which are those that are compared.

A schedule gives each step its own work: sequences grow, evaluations and checkpoints come every so many steps. So a run
of 1,000 steps beside one of 300 is compared over the first 300 of both; where a step of one holds twice the samples,
over the same samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.compare.arms import Repeat
from whyidle.compare.bootstrap import LEAST
from whyidle.compare.pace import Pace
from whyidle.compare.work import common_work
from whyidle.model.intervals import EMPTY

# Of the shorter run: where less is in common, all is compared, and that the steps are others is said (judgement).
ENOUGH: Final = 0.5


def same_steps(before: Sequence[Repeat], after: Sequence[Repeat]) -> tuple[list[Repeat], list[Repeat]]:
    """Return both sides with the steps that all of their runs have; as they are where that is not known."""
    runs = [*before, *after]
    paces = [one.pace for one in runs if one.pace is not None and one.pace.number is not None]
    if len(paces) < len(runs) or len({pace.source for pace in paces}) > 1:
        return list(before), list(after)
    work = common_work(before, after)
    scale = 1.0 if isinstance(work, str) else work[1]  # steps of BEFORE that do what one of AFTER does
    kept = _common(paces, [1.0] * len(before) + [scale] * len(after))
    cut = [replace(one, pace=pace.part(each)) for one, pace, each in zip(runs, paces, kept, strict=True)]
    if min(len(one.steady) for one in cut) < LEAST or max(each.mean() for each in kept) < ENOUGH:
        return list(before), list(after)
    return cut[: len(before)], cut[len(before) :]


def _common(paces: Sequence[Pace], scales: Sequence[float]) -> list[NDArray[np.bool_]]:
    """Return which steps of each run all of them have: the same numbers, or as far as all go."""
    numbers = [EMPTY if pace.number is None else pace.number for pace in paces]
    if len({pace.interval for pace in paces}) == 1 and set(scales) == {1.0}:
        common = reduce(np.intersect1d, numbers)
        return [np.isin(number, common) for number in numbers]
    begins = [(at - pace.interval) * scale for at, pace, scale in zip(numbers, paces, scales, strict=True)]
    ends = [at * scale for at, scale in zip(numbers, scales, strict=True)]
    if not all(map(len, numbers)):
        return [np.zeros(len(at), np.bool_) for at in numbers]
    low, high = max(max(at[0], 0) for at in begins), min(at[-1] for at in ends)
    return [(begin >= low) & (end <= high) for begin, end in zip(begins, ends, strict=True)]
