"""That two losses are the same has to be shown: absence of a difference does not."""

from __future__ import annotations

import numpy as np
import pytest

from whyidle.compare.equivalence import tost

RANDOM = np.random.default_rng(1)
NOISE = RANDOM.normal(0, 0.01, 200)


def test_equal_losses_are_the_same() -> None:
    assert tost(NOISE - NOISE.mean(), 0.01).holds
    assert tost(np.zeros(50), 0.01).holds


def test_a_loss_that_is_worse_by_twice_the_margin_is_not() -> None:
    assert not tost(NOISE + 0.02, 0.01).holds


def test_what_varies_too_much_shows_nothing() -> None:
    found = tost(RANDOM.normal(0, 1, 30), 0.01)
    assert not found.holds
    assert found.difference.low < 0 < found.difference.high


def test_two_one_sided_tests_of_scipy_say_the_same() -> None:
    """Of series whose means lie anywhere from none to twice the margin."""
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(2)
    alike = 0
    for mean in np.linspace(0, 0.02, 60):
        values = random.normal(mean, 0.05, 400)
        below = stats.ttest_1samp(values, 0.01, alternative="less").pvalue
        above = stats.ttest_1samp(values, -0.01, alternative="greater").pvalue
        alike += tost(values, 0.01).holds == (max(below, above) < 0.05)
    assert alike >= 55  # the two estimate one variance differently
