"""Two one-sided tests (TOST) on the mean of a series of paired differences that depend on each other.

That two means do not differ detectably does not show that they are the same. These tests do: the mean is shown to be
above -margin and below +margin, each at 5%, which is that its 90% interval lies within the margin (Schuirmann, 1987).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whyidle.compare.bootstrap import mean_interval
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64

CONFIDENCE: Final = 0.90


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The mean difference with its 90% interval."""

    difference: Interval
    margin: float

    @property
    def holds(self) -> bool:
        """Say whether the mean is shown to lie within the margin, at 5%."""
        return -self.margin < self.difference.low and self.difference.high < self.margin


def tost(differences: Floats64, margin: float) -> Equivalence:
    """Return whether the mean of paired differences lies within the margin, of the same unit, on both sides."""
    return Equivalence(mean_interval(differences, CONFIDENCE), margin)
