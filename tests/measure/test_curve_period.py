"""A period is the job's: noise has none, that of steps which are sampled too seldom is false, true ones are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.curves import false_share, sampled, true_share
from tests.curves import wave
from whyidle.measure.curve.period import period

RNG = np.random.default_rng(5)


def found(values, step_s=None, interval=1.0):
    return period(np.asarray(values, np.float32), interval, step_s)


@given(st.floats(6, 60), st.floats(0.25, 0.75), st.sampled_from([0.5, 1.0, 60.0]))
@settings(max_examples=40, deadline=None)
def test_a_slow_wave_has_its_period_whatever_the_unit_of_time(samples, busy, interval):
    one = found(wave(int(samples * 12), samples * interval, busy, interval=interval), interval=interval)
    assert one is not None
    assert one.seconds == pytest.approx(samples * interval, rel=0.05)
    assert one.aliased is (one.seconds < 10 * interval)


@pytest.mark.parametrize("step", [0.37, 0.8, 1.3, 2.6])
def test_steps_of_less_than_five_samples_have_none(step):
    """The method's table: peaks of the autocorrelation at lags 3, 4, 4 and 13 that are no period of the job."""
    assert found(sampled(RNG, 600, 1.0, step, 0.6, 1.0, 0.03)) is None


def test_an_alias_of_ten_samples_is_only_possible():
    one = found(sampled(RNG, 600, 1.0, 0.875, 0.5, 1 / 6, 0.0))
    assert one is not None
    assert one.seconds == pytest.approx(7, rel=0.05)
    assert one.aliased


def test_a_step_timer_settles_it():
    slow = wave(600, 7, 0.5)
    assert found(slow).aliased
    assert not found(slow, step_s=7.0).aliased
    assert found(slow, step_s=0.875).aliased, "steps of 0.875 s at 1 Hz look like 7 s"
    assert not found(slow, step_s=0.5).aliased, "steps of 0.5 s do not"


@pytest.mark.parametrize("values", [np.full(600, 40.0), np.linspace(0, 100, 600), wave(30, 10, 0.5), np.empty(0)])
def test_what_does_not_come_back_has_none(values):
    assert found(values) is None


def test_noise_and_aliases_are_hardly_ever_claimed():
    assert false_share(240, seed=11) <= 0.02


def test_true_periods_are_found():
    assert true_share(160, seed=12) >= 0.95
