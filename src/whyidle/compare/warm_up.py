"""Steps at the beginning of a run that are not like the rest: kernels are loaded, compiled and chosen, caches fill."""

from __future__ import annotations

from typing import Final

MOST: Final = 10  # steps: docs/method.md, before and after
PART: Final = 5  # at most one in so many is dropped


def warm_up(steps: int) -> int:
    """Return how many of so many steps are dropped: a fifth, 10 at most and one at least; none of a single one."""
    return 0 if steps < 2 else max(min(MOST, steps // PART), 1)
