"""How sure a ratio of step times is, when one step is not independent of the next.

Placeholder of the integration branch: signatures only.
"""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64

CONFIDENCE = 0.95


def mean_interval(values: Floats64) -> Interval:
    """Return the mean of a series with its 95% interval; of fewer than 3 values it is without limits (0, inf)."""
    raise NotImplementedError


def ratio_of_means(before: Sequence[Floats64], after: Sequence[Floats64]) -> Interval:
    """Return mean(before) / mean(after), above 1: after is faster. Each side is one series per repeat of its run."""
    raise NotImplementedError


def ratio_of_medians(before: Sequence[Floats64], after: Sequence[Floats64]) -> Interval:
    """Return median(before) / median(after)."""
    raise NotImplementedError
