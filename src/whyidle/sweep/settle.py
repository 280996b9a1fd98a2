"""When a cell has run for long enough: its mean step is known to within a bound.

An interval that is looked at again and again is narrow by chance now and then, and who stops there is too sure. So a
look counts only when there are a fifth more steps than at the last one, and two in a row have to be narrow enough.
"""

from __future__ import annotations

from typing import Final

from whyidle.compare.bootstrap import mean_interval
from whyidle.model.evidence import Floats64
from whyidle.sweep.plan import Limits

IN_A_ROW: Final = 2  # looks
GROWTH: Final = 1.2  # of the steps, from one look that counts to the next


class Settling:
    """Looks at the steps of a cell that runs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._looked_at = 0
        self._narrow = 0
        self.known_to: float | None = None  # half the width of the last interval, as a share of the mean

    def look(self, steady: Floats64) -> bool:
        """Return whether the cell may end.

        Args:
            steady: its steps so far after the warm-up, s.
        """
        steps = len(steady)
        if steps < self._limits.min_steps or steps < self._looked_at * GROWTH:
            return False
        self._looked_at = steps
        self.known_to = mean_interval(steady).half_share
        self._narrow = self._narrow + 1 if self.known_to <= self._limits.settle_share else 0
        return self._narrow >= IN_A_ROW
