"""How many steps are dropped."""

from __future__ import annotations

import pytest

from whyidle.compare.warm_up import warm_up


@pytest.mark.parametrize(("steps", "dropped"), [(0, 0), (1, 0), (2, 1), (6, 1), (10, 2), (49, 9), (50, 10), (5000, 10)])
def test_a_fifth_ten_at_most_and_one_at_least(steps: int, dropped: int) -> None:
    assert warm_up(steps) == dropped
