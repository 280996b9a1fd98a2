"""Clocks of people: what an hour back is, and what is only a clock that was set or lines out of order."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.model.evidence import Ints

SECOND: Final = 1_000_000_000  # ns
HOUR: Final = 3600 * SECOND
WITHIN: Final = 60 * SECOND  # of an hour, at least, since samples are apart
MOST_JUMPS: Final = 3  # of a clock, in one recording; times with more are in no order at all


def usual_step(step: Ints) -> float:
    """Return the usual time between two samples, in ns, from the steps between them."""
    forward = step[step > 0]
    return float(np.median(forward)) if len(forward) else float(SECOND)


def hour_back(step: int, usual: float) -> bool:
    """Say whether a step back, in ns, is one hour, as at the end of daylight saving time."""
    return bool(abs(step + HOUR - usual) < max(5 * usual, WITHIN))
