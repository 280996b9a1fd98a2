"""Two runs are compared over the steps that both have: what a schedule does to others is no change."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compare.sides import repeat, steps
from whyidle.compare.arms import Repeat
from whyidle.compare.same_steps import same_steps
from whyidle.compare.verdict import judged

GROWS = 0.1 * (1 + np.arange(1, 1001) / 1000)  # s: sequences that become longer


def grown(first: int, last: int, seed: int, scale: float = 1.0) -> Repeat:
    noise = np.random.default_rng(seed).normal(1, 0.03, last - first + 1)
    return repeat(scale * GROWS[first - 1 : last] * noise, number=np.arange(first, last + 1))


def test_a_longer_run_is_cut_to_the_steps_of_the_shorter() -> None:
    one, other = same_steps([grown(1, 1000, 1)], [grown(1, 300, 2)])
    assert [len(side[0].pace.seconds) for side in (one, other) if side[0].pace is not None] == [300, 300]
    found = judged(one, other)
    assert found.verdict == "no detectable change"
    assert "those that both have (BEFORE has 1–1,000)" in found.message
    assert judged([grown(1, 1000, 1)], [grown(1, 300, 2)]).verdict == "improved"  # what it was without


def test_what_both_share_does_not_hide_a_change() -> None:
    found = judged(*same_steps([grown(1, 1000, 1)], [grown(1, 300, 2, scale=1 / 1.05)]))
    assert found.verdict == "improved"
    assert found.throughput is not None
    assert found.throughput.low < 1.05 < found.throughput.high < 1.07
    assert "in pairs, as they vary together" in found.message


def test_pauses_in_the_same_steps_are_no_chance() -> None:
    def paused(count: int, seed: int, scale: float = 1.0) -> Repeat:
        number = np.arange(1, count + 1)
        return repeat(scale * (steps(0.1, count, seed=seed) + 5.0 * (number % 100 == 0)), number=number)

    assert judged(*same_steps([paused(1000, 1)], [paused(60, 2)])).verdict == "no detectable change"
    same = judged([paused(1000, 1)], [paused(1000, 2)])
    assert same.smallest is not None
    assert same.smallest < 0.03
    assert judged([paused(1000, 1)], [paused(1000, 2, scale=1 / 1.05)]).verdict == "improved"


def test_steps_that_were_held_up_in_one_run_are_left_out_of_both() -> None:
    kept = np.delete(np.arange(1, 101), slice(20, 30))
    one, other = same_steps([repeat(steps(0.1, 90), number=kept)], [repeat(steps(0.1, 100), number=np.arange(1, 101))])
    assert one[0].pace is not None
    assert other[0].pace is not None
    assert one[0].pace.number is not None
    assert other[0].pace.number is not None
    assert list(one[0].pace.number) == list(other[0].pace.number) == list(kept)


def test_a_batch_twice_as_large_is_compared_over_the_same_samples() -> None:
    one = repeat(steps(0.1, 1000), samples=32, number=np.arange(1, 1001))
    other = repeat(steps(0.2, 300), samples=64, number=np.arange(1, 301))
    cut, same = same_steps([one], [other])
    assert cut[0].pace is not None
    assert same[0].pace is other.pace
    assert len(cut[0].pace.seconds) == 600


def test_lines_that_tell_of_ten_steps_and_of_a_hundred() -> None:
    one = repeat(steps(0.1, 100), number=np.arange(10, 1001, 10), source="trainer log")
    other = repeat(steps(0.1, 20), number=np.arange(100, 2001, 100), source="trainer log")
    cut, same = same_steps([one], [other])
    assert cut[0].pace is not None
    assert same[0].pace is not None
    assert (cut[0].pace.span, same[0].pace.span) == ((1, 1000), (1, 1000))
    found = judged(cut, same)
    assert found.throughput is not None
    assert found.speedup is None  # the median of means is not that of steps


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (grown(1, 300, 1), grown(700, 1000, 2)),  # nothing in common
        (grown(1, 300, 1), grown(250, 1000, 2)),  # little
        (grown(1, 300, 1), repeat(steps(0.1))),  # not known
        (grown(1, 200, 1), repeat(steps(0.1, 10), number=np.arange(100, 1001, 100))),  # two lines of a log
    ],
)
def test_otherwise_all_steps_are_compared(one: Repeat, other: Repeat) -> None:
    cut, same = same_steps([one], [other])
    assert cut[0] is one
    assert same[0] is other


def test_units_are_of_all_steps_that_were_recorded() -> None:
    one = repeat(steps(0.1, 100), number=np.arange(10, 1001, 10), source="trainer log", units=32_000)
    other = repeat(steps(0.1, 500), number=np.arange(1, 501), source="trainer log", units=16_000)
    assert one.units_per_step == other.units_per_step == 32
    cut, _ = same_steps([one], [other])
    assert cut[0].units_per_step == 32
