"""What twice the GPUs would do: laws that hold are found, and the range holds what they tell."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.compare.doubling import AMDAHL, TREE, UNIVERSAL, fit, gain
from whyidle.model.arithmetic import usl
from whyidle.model.comparison import Interval

SHARES = st.floats(0, 0.3)
ALL: dict[str, Callable[[int], float]] = {
    "linear": float,
    "amdahl": lambda n: usl(n, 0.05, 0),
    "universal": lambda n: usl(n, 0.02, 0.002),
    "tree": lambda n: n / (1 + 0.1 * math.log2(n)),
    "ring": lambda n: n / (1 + 0.3 * (n - 1) / n),
}


def bare(value: float) -> Interval:
    return Interval(-math.inf, value, math.inf)


def sizes(law: Callable[[int], float], *gpus: int) -> list[tuple[int, Interval]]:
    return [(n, bare(1000 * law(n))) for n in gpus]


@pytest.mark.parametrize("law", ALL)
@pytest.mark.parametrize("gpus", [(1, 2, 4, 8), (8, 16, 32, 64)])
def test_a_law_that_holds_is_found(law: str, gpus: tuple[int, ...]) -> None:
    found = gain(sizes(ALL[law], *gpus))
    assert found.likely == pytest.approx(ALL[law](2 * gpus[-1]) / ALL[law](gpus[-1]), rel=0.01)
    assert found.low <= found.likely <= found.high


@pytest.mark.parametrize("law", ALL)
@pytest.mark.parametrize("gpus", [(1, 2), (1, 4), (1, 2, 4), (1, 2, 4, 8)])
def test_the_range_holds_the_truth(law: str, gpus: tuple[int, ...]) -> None:
    found = gain(sizes(ALL[law], *gpus))
    assert found.low - 1e-9 <= ALL[law](2 * gpus[-1]) / ALL[law](gpus[-1]) <= found.high + 1e-9


def test_two_sizes_leave_a_wide_range() -> None:
    """1,000 samples/s on one GPU and 2,400 on four: a serial part of 22%, or 5.6% for each pair."""
    found = gain([(1, bare(1000)), (4, bare(2400))])
    assert found.likely == pytest.approx(usl(8, 2 / 9, 0) / 2.4)
    assert found.low == pytest.approx(usl(8, 0, 1 / 18) / 2.4)
    assert found.high == 2.0


def test_what_varies_widens_the_range() -> None:
    sure = gain([(1, Interval(999, 1000, 1001)), (2, Interval(1898, 1900, 1902)), (4, Interval(3395, 3400, 3405))])
    unsure = gain([(1, Interval(950, 1000, 1050)), (2, Interval(1800, 1900, 2000)), (4, Interval(3200, 3400, 3600))])
    assert unsure.low < sure.low < sure.high < unsure.high


@given(SHARES, SHARES)
def test_coefficients_are_recovered(serial: float, crosstalk: float) -> None:
    points = [(n, 50 * usl(n, serial, crosstalk)) for n in (1, 2, 4, 8, 16)]
    constant, grows, pairs, tree, ring = fit(points, UNIVERSAL)
    assert constant == pytest.approx(1 / 50)
    assert grows == pytest.approx(serial / 50, abs=1e-6)
    assert pairs == pytest.approx(crosstalk / 50, abs=1e-6)
    assert tree == ring == 0


@settings(max_examples=30)
@given(st.lists(st.floats(0.1, 3.0), min_size=3, max_size=3))
def test_no_coefficient_is_negative_and_a_doubling_is_never_more_than_linear(each: list[float]) -> None:
    points = [(n, n * share) for n, share in zip((1, 2, 4), each, strict=True)]
    for law in (AMDAHL, TREE, UNIVERSAL):
        assert (fit(points, law) >= 0).all()
    found = gain([(n, bare(rate)) for n, rate in points])
    assert 0 < found.low <= found.likely <= found.high <= 2 + 1e-9


@settings(max_examples=20)
@given(st.floats(1e-3, 1e6))
def test_the_unit_does_not_matter(unit: float) -> None:
    one = gain([(1, bare(1000)), (2, bare(1900)), (4, bare(3100))])
    other = gain([(1, bare(1000 * unit)), (2, bare(1900 * unit)), (4, bare(3100 * unit))])
    assert other.likely == pytest.approx(one.likely)
    assert other.low == pytest.approx(one.low)
