"""Quantiles of Student's t against scipy, where that is installed."""

from __future__ import annotations

import pytest

from whyidle.compare.student import student


@pytest.mark.parametrize("probability", [0.9, 0.95, 0.975, 0.99])
@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 8, 20, 100, 5000])
def test_it_is_the_quantile_that_scipy_has(probability: float, freedom: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert student(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=0.004)


def test_known_values() -> None:
    """NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2."""
    assert student(0.975, 1) == pytest.approx(12.706, abs=0.001)
    assert student(0.975, 2) == pytest.approx(4.303, abs=0.001)
    assert student(0.975, 10) == pytest.approx(2.228, abs=0.001)
    assert student(0.5, 7) == 0.0


def test_a_part_of_a_degree_counts_as_none() -> None:
    assert student(0.975, 3.9) == student(0.975, 3)
    assert student(0.975, 0.2) == student(0.975, 1)
