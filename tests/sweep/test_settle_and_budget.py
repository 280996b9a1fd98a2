"""When a cell has run for long enough, and what a sweep may take."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.sweep.budget import Budget, Rate
from whyidle.sweep.plan import Limits, Plan, going_on
from whyidle.sweep.recorded import dropped
from whyidle.sweep.settle import Settling


def steps(count: int, cv: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.0, cv, count)


def ends_at(cv: float, limits: Limits, looks: range) -> int | None:
    """Return at how many steps a cell would end that is looked at so often."""
    settling, series = Settling(limits), steps(looks.stop, cv)
    return next((count for count in looks if settling.look(series[:count])), None)


def test_two_looks_have_to_agree() -> None:
    """Steps that hardly vary are known at 50; 60 of them, a fifth more, are the second look that counts."""
    assert ends_at(0.001, Limits(), range(1, 200)) == 60
    assert ends_at(0.001, Limits(min_steps=10), range(1, 200)) == 12


def test_what_varies_more_takes_longer() -> None:
    """A mean is known to 2% after (1.96 cv / 2%)^2 independent steps: 96 at 10%, 865 at 30%."""
    quiet, loud = (ends_at(cv, Limits(), range(1, 4000, 20)) for cv in (0.10, 0.30))
    assert quiet is not None
    assert loud is not None
    assert 80 <= quiet <= 250 < loud < 2500
    assert ends_at(2.0, Limits(), range(1, 1000, 20)) is None


def test_peeking_does_not_make_it_too_sure() -> None:
    """Of cells that end by themselves, about 95% of the means are within the bound of the true one."""
    off = []
    for seed in range(100):
        settling, series = Settling(Limits()), steps(3000, 0.1, seed)
        ended = next(count for count in range(50, 3000, 10) if settling.look(series[:count]))
        off.append(abs(series[:ended].mean() - 1.0))
    assert np.mean(np.array(off) <= 0.02) >= 0.90


@given(st.integers(0, 10**6), st.integers(0, 10**4))
def test_half_of_the_steps_are_left(count: int, queued: int) -> None:
    assert 0 <= dropped(count, queued) <= max(count / 2, min(count, 1) * (count > 1))


def test_a_queue_of_batches_is_no_throughput() -> None:
    assert dropped(100, 0) == 10
    assert dropped(100, 2 * 8 * 2) == 32
    assert dropped(40, 2 * 16 * 2) == 20


@given(
    st.floats(0.01, 100),
    st.floats(0, 100),
    st.integers(1, 8),
    st.floats(0.01, 50),
    st.floats(1, 1e5),
    st.floats(0, 1e5),
)
def test_what_is_left_is_never_overspent(
    most: float, spent: float, running: int, price: float, timeout: float, took: float
) -> None:
    rate = Rate(price, "your price", 2)
    left = Budget(max_usd=most, timeout_s=timeout).left_s(rate, spent, took, running)
    assert left <= timeout - took
    if left > 0:
        assert spent + running * (rate.usd(left) or 0.0) <= most * (1 + 1e-9)


def test_the_most_that_it_can_cost() -> None:
    rate = Rate(3.6, "your price", 2)  # 0.2 cents per second
    assert Budget().most_usd(rate, 10, 100, 1) == pytest.approx(2.0)
    assert Budget(max_cells=5).most_usd(rate, 10, 100, 1) == pytest.approx(1.0)
    assert Budget(timeout_s=100).most_usd(rate, 10, 100, 2) == pytest.approx(0.4)
    assert Budget(max_usd=0.3).most_usd(rate, 10, 100, 2) == pytest.approx(0.3)
    assert Budget().most_usd(Rate(), 10, 100, 1) is None
    assert Budget().left_s(Rate(), 0.0, 1e9, 1) == math.inf


COMMAND = ("python3", "train.py")


def test_more_values_extend_a_sweep() -> None:
    before = Plan(COMMAND, ("num_workers=0,4",))
    assert going_on(before, Plan(COMMAND, ("num_workers=4,8",))).parameters == ("num_workers=0,4,8",)
    assert going_on(before, before) == before
    assert going_on(before, Plan(COMMAND, ("num_workers=0,4",), repeats=3)).repeats == 3


@pytest.mark.parametrize(
    ("now", "what"),
    [
        (Plan(("python3", "other.py"), ("num_workers=0,4",)), "another command: python3 train.py"),
        (Plan(COMMAND, ("batch_size=0,4",)), "other parameters: num_workers"),
        (Plan(COMMAND, ("num_workers=0,4",), Limits(settle_share=0.05)), "another --settle"),
        (Plan(COMMAND, ("num_workers=0,4",), Limits(cell_steps=90)), "another --cell-steps"),
        (Plan(COMMAND, ("num_workers=0,4",), gpus=("0",)), "another --gpus"),
    ],
)
def test_what_would_not_be_comparable_is_refused(now: Plan, what: str) -> None:
    with pytest.raises(WhyIdleError, match="holds a sweep with") as error:
        going_on(Plan(COMMAND, ("num_workers=0,4",)), now)
    assert what in error.value.message
