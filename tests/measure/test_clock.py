"""The same kernels, in every step and on every rank: how much longer they take than they could."""

from __future__ import annotations

import pytest

from tests.traces import Recording
from whyidle.measure import measure
from whyidle.model.evidence import Run

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def recording(*factors, kernels=24, length=100, changing=None, beside=(), blocks=8.0):
    """A step of 10 ms per factor with kernels of 100 us times it, each of its own name; `changing` alters a length."""
    r = Recording()
    for step, factor in enumerate(factors):
        at = step * 10_000
        r.step(step, at, at + 10_000)
        at += 10
        for place in range(kernels):
            long = length * factor
            if changing:
                long = changing(step, place, long)
            r.kernel(at, at + long, launched=at - 5, took=1, name=f"gemm_{place}", blocks=blocks)
            if step in beside:
                r.kernel(at, at + 5, launched=at - 5, took=1, name=REDUCE, stream=20)
            at += long + 5
    return r


def measured(r):
    return {m.name: m.value for m in measure(Run((r.trace(),))).measurements}


def slowdown(r):
    m = measured(r)
    return m["kernel_slowdown"], m["slower_share"]


def test_what_steps_lose_to_the_fastest():
    """Factors 1, 1, 1.25 and 1.25: of 3000 us of kernels in each of the last two 600 us, of 40 ms."""
    times, share = slowdown(recording(1, 1, 1.25, 1.25))
    assert times == pytest.approx(1.25)
    assert share == pytest.approx(2 * 24 * 25 / 40_000)


def test_the_place_is_the_slowest_step():
    (place,) = measure(Run((recording(1, 1.1, 1.2).trace(),))).measurements.one("slower_share").locations
    assert place.step == 2


@pytest.mark.parametrize("factors", [(1, 1.3, 1), (1, 1.3, 1.1, 1.3, 1.2), (1.3, 1.3, 1)])
def test_what_goes_up_and_down_is_work(factors):
    """Sequences of changing length, a single slow step, a clock that comes up."""
    assert slowdown(recording(*factors)) == (1, 0)


def test_a_clock_may_fall_step_by_step():
    """1.02 to 1.10, in steps of 0.02: of 2400 us in each of six steps 48, 96, 144, 192 and 240 more, 60 ms in all."""
    times, share = slowdown(recording(1, 1.02, 1.04, 1.06, 1.08, 1.10))
    assert times == pytest.approx(1.09 / 1.01)
    assert share == pytest.approx(24 * sum(100 * (f - 1.01) for f in (1.02, 1.04, 1.06, 1.08, 1.10)) / 60_000, rel=0.01)


def test_a_part_of_the_kernels_is_no_clock():
    """A third gets slower: another algorithm, more to do in one layer."""
    assert slowdown(
        recording(1, 1, 1, changing=lambda step, place, long: long * (1.5 if step and place < 8 else 1))
    ) == (1, 0)


def test_where_kernels_get_faster_meanwhile_the_work_changes():
    def changing(step, place, long):
        return long * (0.8 if place % 4 == 0 else 1.3) if step == 2 else long

    assert slowdown(recording(1, 1, 1, changing=changing)) == (1, 0)


def test_kernels_beside_a_collective_share_the_gpu_with_it():
    """All of the third step are slower, each beside a collective: they are not compared, and nothing is left."""
    assert "kernel_slowdown" not in measured(recording(1, 1, 1.3, beside=(2,)))


@pytest.mark.parametrize(
    "r",
    [
        recording(1, 1.3),
        recording(1, 1, 1.3, kernels=19),
        recording(1, 1, 1.3, length=14),
        Recording().kernel(0, 100),
    ],
    ids=["two steps", "few kernels", "short kernels", "no steps"],
)
def test_when_it_is_not_known(r):
    assert "kernel_slowdown" not in measured(r)


def test_a_kernel_of_another_size_is_another_kernel():
    """The kernels of the third step have a larger grid: of the step nothing is the same."""
    r = recording(1, 1, 1.3)
    r.device = [(*row[:8], 9.0 if row[0] >= 20_000_000 else row[8], *row[9:]) for row in r.device]
    assert "kernel_slowdown" not in measured(r)


def ranks(*recordings):
    traces = [r.trace(path=f"r{number}.json", rank=number) for number, r in enumerate(recordings)]
    found = measure(Run(tuple(traces))).measurements
    return {m.name: m.value for m in found if m.name in {"gpu_slowdown", "slow_gpus"}}


def test_a_gpu_that_is_slower_than_the_others():
    """Rank 2 takes 1.2 times as long as the median of the others, of which one takes 1.02 times as long."""
    found = ranks(*(recording(factor, factor) for factor in (1, 1.02, 1.2, 1)))
    assert found == {"gpu_slowdown": pytest.approx(1.2), "slow_gpus": "2"}


def test_gpus_that_are_alike():
    found = ranks(*(recording(factor, factor) for factor in (1, 1.02, 1.03)))
    assert found == {"gpu_slowdown": 1, "slow_gpus": ""}


def test_a_rank_that_has_more_to_do_in_some_steps_has_no_slow_gpu():
    found = ranks(recording(1, 1, 1), recording(1, 1, 1), recording(1.3, 1, 1.3))
    assert found == {"gpu_slowdown": 1, "slow_gpus": ""}


def test_ranks_that_do_something_else_are_not_compared():
    assert not ranks(recording(1, 1), recording(1, 1, blocks=9.0))
    assert not ranks(recording(1, 1))
