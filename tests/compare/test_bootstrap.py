"""Intervals of means and ratios: laws that hold for every series, values that scipy gives, and what they promise.

`bench/compare.py` measures how often they hold the truth; here a few hundred series show that it is about 95%.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from whyidle.compare.bootstrap import (
    block_length,
    correlation_time,
    mean_interval,
    mean_of_runs,
    ratio_of_means,
    ratio_of_medians,
    ratio_of_paired_means,
    smallest_detectable,
    vary_together,
)
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64

TIMES = arrays(np.float64, st.integers(3, 60), elements=st.floats(1e-3, 1e3))


def series(steps: int, phi: float, random: np.random.Generator) -> Floats64:
    """Return AR(1) step times of mean 1 and cv 5%."""
    values = np.empty(steps)
    values[0] = random.normal()
    for k in range(1, steps):
        values[k] = phi * values[k - 1] + math.sqrt(1 - phi**2) * random.normal()
    return 1 + 0.05 * values


@given(TIMES, TIMES)
def test_the_likely_value_lies_in_its_interval(before: Floats64, after: Floats64) -> None:
    for ratio, statistic in ((ratio_of_means, np.mean), (ratio_of_medians, np.median)):
        found = ratio([before], [after])
        assert 0 <= found.low <= found.likely <= found.high
        assert found.likely == pytest.approx(statistic(before) / statistic(after))


@given(TIMES)
def test_a_run_is_no_faster_than_itself(times: Floats64) -> None:
    for ratio in (ratio_of_means, ratio_of_medians):
        found = ratio([times], [times])
        assert found.low <= 1 == found.likely <= found.high


@given(TIMES, st.floats(1e-6, 1e6))
def test_the_unit_does_not_matter(times: Floats64, scale: float) -> None:
    one, other = mean_interval(times), mean_interval(times * scale)
    for name in ("low", "likely", "high"):
        assert getattr(other, name) == pytest.approx(getattr(one, name) * scale, rel=1e-6, abs=1e-9 * scale)


def test_steps_that_do_not_vary_leave_no_doubt() -> None:
    assert ratio_of_means([np.full(50, 2.0)], [np.full(50, 1.0)]) == Interval(2.0, 2.0, 2.0)
    assert mean_interval(np.full(50, 2.0)) == Interval(2.0, 2.0, 2.0)


def test_of_two_steps_nothing_is_known_but_their_mean() -> None:
    assert mean_interval(np.array([1.0, 2.0])) == Interval(-math.inf, 1.5, math.inf)
    found = ratio_of_means([np.array([1.0, 2.0])], [np.ones(50)])
    assert (found.low, found.likely, found.high) == (0.0, 1.5, math.inf)
    assert smallest_detectable(found) == math.inf


def test_the_same_series_gets_the_same_interval_again() -> None:
    times = series(200, 0.5, np.random.default_rng(1))
    assert ratio_of_means([times], [times[::-1]]) == ratio_of_means([times], [times[::-1]])


def test_of_independent_values_it_is_the_interval_that_scipy_has() -> None:
    """On the average: of one series blocks tell the variance within 10% or so."""
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(2)
    ours, theirs, again = [], [], []
    for _ in range(30):
        values = random.normal(10, 1, 500)
        found = mean_interval(values)
        ours.append(found.high - found.low)
        theirs.append(np.diff(stats.ttest_1samp(values, 0).confidence_interval(0.95))[0])
        drawn = stats.bootstrap((values,), np.mean, n_resamples=500, random_state=0, method="percentile")
        again.append(np.diff(drawn.confidence_interval)[0])
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.1)
    assert np.mean(ours) == pytest.approx(np.mean(again), rel=0.1)


def test_correlated_steps_get_a_wider_interval() -> None:
    """The long-run variance of an AR(1) is (1 + phi) / (1 - phi) that of independent values."""
    random = np.random.default_rng(3)
    widths = {}
    for phi in (0.0, 0.8):
        found = [mean_interval(series(1000, phi, random)) for _ in range(20)]
        widths[phi] = np.mean([one.high - one.low for one in found])
    assert widths[0.8] / widths[0.0] == pytest.approx(3.0, rel=0.15)


def test_correlation_time_is_that_of_the_process() -> None:
    values = series(20_000, 0.8, np.random.default_rng(4))
    assert correlation_time(values) == pytest.approx(9.0, rel=0.2)
    assert correlation_time(np.ones(10)) == 1.0
    assert block_length(values) >= 4 * 7


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.8])
def test_intervals_hold_the_truth_as_often_as_they_promise(phi: float) -> None:
    random = np.random.default_rng(5)
    pairs = [(series(500, phi, random), series(500, phi, random)) for _ in range(300)]
    for ratio in (ratio_of_means, ratio_of_medians):
        found = [ratio([one], [other]) for one, other in pairs]
        assert 0.90 <= np.mean([one.low <= 1 <= one.high for one in found]) <= 0.985


def test_a_gain_of_three_percent_is_found_and_none_is_not() -> None:
    random = np.random.default_rng(6)
    pairs = [(series(500, 0.3, random), series(500, 0.3, random)) for _ in range(100)]
    assert np.mean([ratio_of_means([one], [other / 1.03]).low > 1.01 for one, other in pairs]) >= 0.8
    assert np.mean([ratio_of_means([one], [other]).low > 1.01 for one, other in pairs]) <= 0.025


def test_what_would_have_been_found() -> None:
    """A standard error of 1% of the logarithm finds 2.8%."""
    found = smallest_detectable(Interval(math.exp(-0.0196), 1.0, math.exp(0.0196)))
    assert found == pytest.approx(math.expm1(0.028), rel=1e-3)


def test_runs_that_differ_more_than_their_steps_decide() -> None:
    random = np.random.default_rng(7)
    runs = [series(300, 0.0, random) * scale for scale in (0.9, 1.0, 1.1)]
    between = mean_of_runs(runs)
    assert between.high - between.low > 5 * (mean_interval(runs[1]).high - mean_interval(runs[1]).low)
    assert ratio_of_means(runs, runs).low < 0.9
    assert between.likely == pytest.approx(np.mean([run.mean() for run in runs]))


def test_repeats_of_jobs_that_do_not_differ_hold_the_truth() -> None:
    random = np.random.default_rng(8)
    held = 0
    for _ in range(100):
        scales = 1 + 0.03 * random.normal(size=6)
        runs = [series(100, 0.3, random) * scale for scale in scales]
        found = ratio_of_means(runs[:3], runs[3:])
        held += found.low <= 1 <= found.high
    assert held >= 90


def pauses(random: np.random.Generator) -> Floats64:
    """Return 300 steps of which every 60th holds an evaluation that lasts about 30 of them."""
    values = series(300, 0.3, random)
    values[59::60] += random.normal(30, 4, 5).clip(4)
    return values


def test_pairs_hold_the_truth_where_pauses_come_in_the_same_steps() -> None:
    random = np.random.default_rng(3)
    drawn = [(pauses(random), pauses(random)) for _ in range(150)]
    assert all(vary_together(one, other) for one, other in drawn)
    found = [ratio_of_paired_means(one, other) for one, other in drawn]
    alone = [ratio_of_means([one], [other]) for one, other in drawn]
    assert np.mean([ratio.low <= 1 <= ratio.high for ratio in found]) >= 0.92
    widths = [float(np.median([ratio.high / ratio.low for ratio in ratios])) for ratios in (found, alone)]
    assert widths[0] < 1.3
    assert widths[1] > 2


def test_independent_steps_are_no_pairs() -> None:
    random = np.random.default_rng(4)
    drawn = [(series(60, 0.0, random), series(60, 0.0, random)) for _ in range(200)]
    assert not any(vary_together(one, other) for one, other in drawn)
    one = drawn[0][0]
    assert not vary_together(one, one)  # a recording beside itself
    assert not vary_together(one, one[:59])
    assert not vary_together(np.full(60, 0.1), one)


@given(arrays(np.float64, 40, elements=st.floats(0.01, 10.0)), st.floats(0.1, 10))
def test_pairs_that_differ_by_a_factor_alone_tell_it_exactly(times: Floats64, scale: float) -> None:
    found = ratio_of_paired_means(times, times / scale)
    assert found.low <= found.likely <= found.high
    assert found.likely == pytest.approx(scale)
    assert found.high / found.low == pytest.approx(1, abs=1e-9)
