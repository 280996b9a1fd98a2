"""Whether the same data came in the same order: what chance makes of independent losses, and what a model makes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.compare.pairing import CHANCE, pairing


def wandering(random, count, phi):
    """Return losses that fall, with noise that depends on the noise before it (AR(1))."""
    noise = random.standard_normal(count)
    for step in range(1, count):
        noise[step] += phi * noise[step - 1]
    return 2.0 + np.exp(-np.arange(count) / 60) + 0.1 * noise


@pytest.mark.parametrize("count", [30, 60, 200])
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_independent_losses_are_hardly_ever_paired(count, phi):
    random = np.random.default_rng(1)
    found = [pairing(wandering(random, count, phi), wandering(random, count, phi)) for _ in range(1000)]
    assert sum(one.shown for one in found) <= 3  # CHANCE is 1 in 1000
    assert np.mean([one.chance < 0.05 for one in found]) < 0.08  # as it should be, 5%


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(30, 300), st.floats(0.0, 0.3), st.floats(0.5, 2.0))
def test_the_same_batches_are_paired_whatever_else_differs(seed, count, own, factor):
    """Batches are as hard for both; each model adds noise of its own, and one learns a multiple of the loss."""
    random = np.random.default_rng(seed)
    batches = wandering(random, count, 0.0)
    first, second = (batches + 0.1 * own * random.standard_normal(count) for _ in range(2))
    assert pairing(first, factor * second).shown


@given(st.integers(0, 2**32 - 1), st.integers(30, 100))
def test_pairing_is_the_same_from_both_sides_and_in_any_unit(seed, count):
    random = np.random.default_rng(seed)
    first, second = wandering(random, count, 0.3), wandering(random, count, 0.3)
    here, there = pairing(first, second), pairing(1000 * second, 1000 * first)
    assert there.correlation == pytest.approx(here.correlation, abs=1e-9)
    assert there.chance == pytest.approx(here.chance, abs=1e-9)


def test_a_spike_counts_as_one_step():
    random = np.random.default_rng(3)
    first, second = wandering(random, 100, 0.0), wandering(random, 100, 0.0)
    first[50], second[50] = 1e6, 1e6
    assert pairing(first, second).chance > CHANCE


def test_equal_losses_are_paired_and_smooth_ones_do_not_tell():
    smooth = 2.0 + 1e-9 * np.arange(100.0)
    assert pairing(smooth, smooth).shown
    told = pairing(smooth, smooth + 0.1)
    assert np.isnan(told.correlation)
    assert not told.shown
