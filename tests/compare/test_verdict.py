"""What is said of two series of steps, and of recordings without any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.compare.sides import repeat, steps
from whyidle.compare.verdict import DELTA, FEWEST, judged

series = st.lists(st.floats(0.01, 10.0), min_size=6, max_size=60).map(np.array)


def test_a_faster_job_is_improved() -> None:
    found = judged([repeat(steps(0.2, seed=1))], [repeat(steps(0.1, seed=2))])
    assert found.verdict == "improved"
    assert found.throughput is not None
    assert found.throughput.low < 2.0 < found.throughput.high
    assert found.message.startswith("Improved: 1.99x the steps per second (1.97x–2.01x, 95%).")
    assert "Within these two runs only" in found.message
    assert not found.between_runs


def test_a_slower_job_is_regressed() -> None:
    assert judged([repeat(steps(0.1, seed=1))], [repeat(steps(0.12, seed=2))]).verdict == "regressed"


def test_noise_is_no_change_and_says_what_would_have_been_seen() -> None:
    found = judged([repeat(steps(0.1, seed=1))], [repeat(steps(0.1, seed=2))])
    assert found.verdict == "no detectable change"
    assert found.smallest is not None
    assert DELTA < found.smallest < 0.05
    assert "or more would have been seen" in found.message


def test_a_certain_change_below_one_percent_is_none() -> None:
    found = judged([repeat(np.full(200, 1.008))], [repeat(np.full(200, 1.0))])
    assert found.verdict == "no detectable change"
    assert "a change of 1% or more" in found.message


@given(series)
def test_a_run_beside_itself_has_not_changed(times: NDArray[np.float64]) -> None:
    found = judged([repeat(times)], [repeat(times)])
    assert found.verdict == "no detectable change"
    assert found.throughput is not None
    assert found.throughput.low <= 1.0 <= found.throughput.high


@given(series, series)
def test_sides_that_change_places_turn_the_ratio_over(one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    there, back = judged([repeat(one)], [repeat(other)]), judged([repeat(other)], [repeat(one)])
    assert there.throughput is not None
    assert back.throughput is not None
    assert there.throughput.likely * back.throughput.likely == pytest.approx(1)
    assert {there.verdict, back.verdict} != {"improved"}


@given(series, series, st.floats(0.1, 100))
def test_the_unit_of_time_does_not_matter(one: NDArray[np.float64], other: NDArray[np.float64], scale: float) -> None:
    found, scaled = judged([repeat(one)], [repeat(other)]), judged([repeat(one * scale)], [repeat(other * scale)])
    assert found.throughput is not None
    assert scaled.throughput is not None
    assert scaled.throughput.likely == pytest.approx(found.throughput.likely)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_steps_are_not_judged(count: int) -> None:
    found = judged([repeat(steps(0.2, count))], [repeat(steps(0.1, 100))])
    assert found.verdict == "cannot judge"
    assert f"BEFORE has {count} step" in found.message
    assert str(FEWEST) in found.message


def test_five_steps_are_enough_and_said_to_be_few() -> None:
    found = judged([repeat(steps(0.2, 5))], [repeat(steps(0.1, 5))])
    assert found.verdict == "improved"
    assert "So few do not show how much one depends on the next" in found.message


def test_another_batch_size_is_judged_per_sample() -> None:
    one, other = repeat(steps(0.1, seed=1), samples=32), repeat(steps(0.15, seed=2), samples=64)
    found = judged([one], [other])
    assert (found.verdict, found.per) == ("improved", "sample")
    assert found.throughput is not None
    assert found.throughput.likely == pytest.approx(2 * 0.1 / 0.15, rel=0.03)
    assert found.speedup is not None  # of the step, which became longer
    assert found.speedup.likely < 1
    assert "2x the work" in found.message


def test_another_number_of_tokens_is_judged_per_token() -> None:
    one, other = repeat(steps(0.1, seed=1), tokens=1000), repeat(steps(0.1, seed=2), tokens=1500)
    assert judged([one], [other]).per == "token"


def test_a_smaller_last_batch_is_the_same_batch_size() -> None:
    one, other = repeat(steps(0.1), samples=32), repeat(steps(0.1), samples=31.7)
    assert judged([one], [other]).per == "step"


def test_another_batch_size_of_unknown_samples_is_not_judged() -> None:
    one = repeat(steps(0.1), settings={"batch_size": 32})
    other = repeat(steps(0.1), settings={"batch_size": 64})
    found = judged([one], [other])
    assert found.verdict == "cannot judge"
    assert "--units" in found.message


def test_rates_of_different_things_have_no_common_unit() -> None:
    found = judged([repeat(steps(1e-4), per="token")], [repeat(steps(0.1))])
    assert found.verdict == "cannot judge"
    assert "no common unit: BEFORE is told per token, AFTER per step" in found.message


def test_rates_of_the_same_thing_are_compared() -> None:
    found = judged([repeat(steps(2e-4, seed=1), per="token")], [repeat(steps(1e-4, seed=2), per="token")])
    assert (found.verdict, found.per) == ("improved", "token")


def test_units_of_work_make_steps_comparable() -> None:
    one, other = repeat(steps(0.1, 50), units=50 * 32), repeat(steps(0.1, 100), units=100 * 64)
    found = judged([one], [other])
    assert found.per == "unit"
    assert found.throughput is not None
    assert found.throughput.likely == pytest.approx(2, rel=0.03)


def test_without_steps_nothing_is_judged_unless_somebody_counted() -> None:
    assert judged([repeat(window_s=1)], [repeat(window_s=1)]).verdict == "cannot judge"
    found = judged([repeat(window_s=1, units=10)], [repeat(window_s=1, units=20)])
    assert (found.verdict, found.per, found.speedup) == ("improved", "unit", None)
    assert found.throughput is not None
    assert found.throughput.likely == pytest.approx(2)
    assert "No steps were compared" in found.message
    found = judged([repeat(window_s=1, units=10)], [repeat(window_s=1, units=12)])
    assert found.verdict == "no detectable change"


def test_repeats_speak_for_more_than_two_runs() -> None:
    one = [repeat(steps(0.10 + 0.001 * k, seed=k)) for k in range(4)]
    other = [repeat(steps(0.08 + 0.001 * k, seed=9 + k)) for k in range(4)]
    found = judged(one, other)
    assert found.verdict == "improved"
    assert found.between_runs
    assert "By 4 and 4 repeats" in found.message


def test_two_starts_of_each_ask_for_a_third() -> None:
    said = [
        judged(*([repeat(steps(mean, seed=seed)) for seed in range(count)] for mean in (0.2, 0.1))).message
        for count in (2, 3)
    ]
    assert ["a third of each narrows it" in message for message in said] == [True, False]


def test_repeats_on_one_side_only_are_said() -> None:
    found = judged([repeat(steps(0.1, seed=k)) for k in range(3)], [repeat(steps(0.08, seed=9))])
    assert not found.between_runs
    assert "Of one side there are no repeats: it is taken to differ from start to start as the other" in found.message
    apart = [repeat(steps(scale, seed=k)) for k, scale in enumerate((0.08, 0.1, 0.12))]
    assert judged(apart, [repeat(steps(0.08, seed=9))]).verdict == "no detectable change"  # as one of BEFORE's was
    assert judged([repeat(steps(0.08, seed=9))], apart).verdict == "no detectable change"


def test_a_range_that_shows_nothing_says_what_it_would_have_shown() -> None:
    found = judged([repeat(steps(scale)) for scale in (0.1, 0.13)], [repeat(steps(scale)) for scale in (0.1, 0.12)])
    assert found.smallest is not None
    assert found.smallest > 1
    assert f"; one by {1 + found.smallest:.2g}x or more would have been seen." in found.message


def test_runs_that_differ_among_themselves_widen_the_range() -> None:
    alike = judged([repeat(steps(0.1, seed=k)) for k in range(3)], [repeat(steps(0.1, seed=k)) for k in (4, 5, 6)])
    apart = judged(
        [repeat(steps(0.1 * scale, seed=k)) for k, scale in enumerate((0.8, 1.0, 1.2))],
        [repeat(steps(0.1, seed=k)) for k in (4, 5, 6)],
    )
    assert alike.throughput is not None
    assert apart.throughput is not None
    assert apart.throughput.high / apart.throughput.low > 2 * alike.throughput.high / alike.throughput.low


def test_the_limit_is_that_of_the_method() -> None:
    assert DELTA == 0.01
