"""Collectives: how long, how exposed, and how much longer than the fastest of their kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import Recording, measured
from whyidle.measure import measure
from whyidle.model.evidence import Run

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def steps(count, length=1000):
    r = Recording()
    for number in range(count):
        r.step(number, number * length, (number + 1) * length)
    return r


def test_exposed_is_the_part_beside_which_no_kernel_runs():
    """The collective runs 100-300, another kernel 200-250 beside it: of 1000 us 200 and 150."""
    r = steps(1).kernel(100, 300, name=REDUCE).kernel(200, 250, stream=8)
    m = measured(r.analysis())
    assert m["collective_share"] == pytest.approx(0.2)
    assert m["collective_exposed_share"] == pytest.approx(0.15)


def test_waiting_is_what_goes_beyond_the_fastest_of_the_same_place():
    """First collective of each step: 100, 150 and 300 us, so 0 + 50 + 200 of 3000. The second is always 10."""
    r = steps(3)
    for step, took in enumerate((100, 150, 300)):
        r.kernel(step * 1000, step * 1000 + took, name=REDUCE, message=64)
        r.kernel(step * 1000 + 500, step * 1000 + 510, name=REDUCE, message=64)
    assert measured(r.analysis())["collective_wait_share"] == pytest.approx(250 / 3000)


@pytest.mark.parametrize("other", [{"message": 128}, {"name": "ncclDevKernel_Broadcast_RING_LL"}])
def test_only_the_same_collective_is_compared(other):
    r = steps(2).kernel(0, 100, name=REDUCE, message=64)
    r.kernel(1000, 1300, **{"name": REDUCE, "message": 64, **other})
    assert measured(r.analysis())["collective_wait_share"] == 0


def test_collectives_that_wait_at_the_same_time_wait_once():
    """Two streams, 1 us in the first step, 1000 us at once in the second: 999 of 2000 us, not 1998."""
    r = steps(2)
    for stream in (7, 8):
        name = f"{REDUCE}_{stream}"
        r.kernel(0, 1, name=name, stream=stream, message=8)
        r.kernel(1000, 2000, name=name, stream=stream, message=8)
    m = measured(r.analysis())
    assert m["collective_wait_share"] == pytest.approx(999 / 2000)
    assert m["collective_wait_share"] <= m["collective_share"]


def test_no_collectives_is_zero_and_no_steps_is_unknown():
    assert measured(steps(2).kernel(0, 10).analysis())["collective_wait_share"] == 0
    assert "collective_wait_share" not in measured(Recording().kernel(0, 10, name=REDUCE).analysis())
    assert "collective_share" not in measured(Recording().copy("Memcpy HtoD (Pinned -> Device)", 0, 10).analysis())


def test_waiting_beside_a_kernel_costs_nothing():
    """The second takes 200 us longer than the first; a kernel runs beside 150 of them, so 50 of 2000 us."""
    r = steps(2).kernel(0, 100, name=REDUCE, message=64).kernel(1000, 1300, name=REDUCE, message=64)
    r.kernel(1000, 1150, stream=8)
    assert measured(r.analysis())["collective_wait_share"] == pytest.approx(50 / 2000)


def ranks(*lengths, group="0 [0, 1]", world=None):
    """One collective in each of two steps, that takes as long as said, rank by rank."""
    traces = []
    for rank, took in enumerate(lengths):
        r = steps(2)
        for step, long in enumerate(took):
            r.kernel(step * 1000, step * 1000 + long, name=REDUCE, message=64, group=group)
        traces.append(replace(r.trace(path=f"r{rank}.json", rank=rank), world_size=world))
    return measure(Run(tuple(traces))).measurements


def test_the_rank_that_entered_last_waits_least():
    m = ranks((100, 100), (300, 300))
    assert [part.value for part in m.each("collective_wait_share")] == [0, pytest.approx(400 / 2000)]


@pytest.mark.parametrize("group", ["0 [0, 1, 2]", "[0, 1, 2, ..., 7]"])
def test_of_some_ranks_the_longer_wait_is_right_and_nobody_is_named(group):
    """Both wait 200 us in the second step, for rank 2, which was not recorded."""
    m = ranks((100, 300), (100, 300), group=group)
    assert m.number("collective_wait_share") == pytest.approx(200 / 2000)
    assert not m.each("collective_wait_share")
    assert not ranks((100, 300), (100, 300), world=8).each("collective_wait_share")


NODE = "autograd::engine::evaluate_function: "


def exposed(name, launched, thread="1/1"):
    """A step: forward 0-50, backward 50-100 on its thread, update at 150; a collective is launched and runs alone."""
    r = steps(1).op("aten::mm", 0, 50).op(f"{NODE}MmBackward0", 50, 80, "1/2")
    r.op(f"{NODE}torch::autograd::AccumulateGrad", 80, 100, "1/2").range("Optimizer.step#SGD.step", 150, 160)
    r.kernel(0, 100, launched=-5).kernel(200, 300, launched=launched, took=1, name=name, thread=thread)
    return measured(r.analysis())["collective_kind"]


@pytest.mark.parametrize(
    ("launched", "thread", "kind"),
    [
        (90, "1/2", "gradients"),  # by the hook of a parameter
        (120, "1/1", "gradients"),  # by the user, before the update
        (60, "1/2", "all_reduce"),  # by an operator of the backward pass
        (30, "1/1", "all_reduce"),  # by the model's forward pass
        (170, "1/1", "all_reduce"),  # after the update
    ],
)
def test_an_all_reduce_is_of_gradients_by_where_it_is_launched(launched, thread, kind):
    assert exposed(REDUCE, launched, thread) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllGather_RING_LL", "shards"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "shards"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "all_to_all"),
    ],
)
def test_other_collectives_are_told_by_their_name(name, kind):
    assert exposed(name, 90, "1/2") == kind


def test_shards_are_gathered_and_scattered():
    """100 us of an all-gather, 90 of them beside a kernel, and 20 of a reduce-scatter alone: 30 of 1000."""
    r = steps(1).kernel(0, 90).kernel(0, 100, name="ncclDevKernel_AllGather_RING_LL", stream=8)
    r.kernel(200, 220, name="ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", stream=8).kernel(300, 400, name=REDUCE)
    assert measured(r.analysis())["shards_exposed_share"] == pytest.approx(0.03)


def test_the_kind_is_that_of_which_most_is_exposed():
    """An all-gather of 100 us, 90 of them beside a kernel, and an all-to-all of 20 us alone."""
    r = steps(1).kernel(0, 90).kernel(0, 100, name="ncclDevKernel_AllGather_RING_LL", stream=8)
    r.kernel(200, 220, name="ncclDevKernel_SendRecv", stream=8)
    assert measured(r.analysis())["collective_kind"] == "all_to_all"
