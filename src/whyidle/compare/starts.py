"""How much one start of a job differs from the next: what a run that was started once leaves open.

A machine, a placement, a cache that was warm: steps within one run do not show it. Where one side was started several
times, its spread is taken for that of the other, too: a job that was changed a little varies as it did. An interval of
the ratio of the two is wide by what one start says of its job (a prediction interval, with as many degrees of freedom
as the spread has), beside what the bootstrap knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from whyidle.compare import bootstrap
from whyidle.compare.student import student
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64


def given_twice(paths: Iterable[str]) -> str | None:
    """Return a recording that is there twice, which would make repeats look more alike than they are."""
    seen: set[str] = set()
    for path in paths:
        found = real(path)
        if found in seen:
            return path
        seen.add(found)
    return None


def real(path: str) -> str:
    """Return what two names of one recording share: the path without links; an address as it is."""
    return path if "://" in path else str(Path(path).resolve())


def ratio_of_means(before: Sequence[Floats64], after: Sequence[Floats64]) -> Interval:
    """Return what `bootstrap.ratio_of_means` does, with what differs from start to start."""
    return _over_starts(bootstrap.ratio_of_means(before, after), np.mean, before, after)


def ratio_of_medians(before: Sequence[Floats64], after: Sequence[Floats64]) -> Interval:
    """Return what `bootstrap.ratio_of_medians` does, with what differs from start to start."""
    return _over_starts(bootstrap.ratio_of_medians(before, after), np.median, before, after)


def _over_starts(ratio: Interval, statistic: Callable[[Floats64], np.floating], *sides: Sequence[Floats64]) -> Interval:
    """Return the interval of a ratio with what differs from start to start, where one side alone tells that.

    Args:
        ratio: of two sides, with its interval: between runs where a side has several, else within its only one.
        statistic: that it is the ratio of.
        sides: step times of each start, of each side.
    """
    known = [np.log([float(statistic(run)) for run in side]) for side in sides if len(side) > 1]
    if len(known) != 1 or not 0 < ratio.low <= ratio.high < math.inf:
        return ratio
    (spread,) = known
    more = float(spread.std(ddof=1)) * student(0.5 + bootstrap.CONFIDENCE / 2, len(spread) - 1)
    low, high = (math.hypot(math.log(end / ratio.likely), more) for end in (ratio.low, ratio.high))
    return Interval(ratio.likely * math.exp(-low), ratio.likely, ratio.likely * math.exp(high))
