"""Two one-sided tests (TOST) on the mean of a series of paired differences that depend on each other.

Placeholder of the integration branch: signatures only.
"""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The mean difference with its 90% interval; equivalent where that lies within the margin on both sides."""

    difference: Interval
    margin: float
    p: float  # of the larger of the two one-sided tests

    @property
    def holds(self) -> bool:
        """Say whether the means are the same within the margin, at 5%."""
        return -self.margin < self.difference.low and self.difference.high < self.margin


def tost(differences: Floats64, margin: float) -> Equivalence:
    """Test whether the mean of paired differences lies within +-margin, by the same margin for both tests at 5%."""
    raise NotImplementedError
