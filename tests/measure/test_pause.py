"""Checkpoints, evaluation and the allocator."""

from __future__ import annotations

import itertools

import pytest

from tests.traces import Recording, measured


def four_steps():
    r = Recording()
    for number in range(4):
        r.step(number, number * 100, number * 100 + 100)
    return r.kernel(0, 400)


def test_pauses_count_whether_the_gpu_is_busy_or_not():
    """Saving 50-150, of which a nested frame is part, validation 200-260: of 400 us."""
    r = four_steps().range("save_checkpoint", 50, 150).python("torch/serialization.py(850): save", 60, 140)
    m = measured(r.range("validation", 200, 260).analysis())
    assert m["checkpoint_share"] == pytest.approx(0.25)
    assert m["evaluation_share"] == pytest.approx(0.15)


def test_what_the_gpu_does_for_an_evaluation_is_what_is_launched_in_it():
    """The kernel of 0-210 was launched before. In validation, 200-260, one of 30 us is launched that runs after it."""
    r = Recording().step(1, 0, 500).kernel(0, 210, launched=-5).range("validation", 200, 260)
    m = measured(r.kernel(270, 300, launched=250).kernel(310, 400, launched=280).analysis())
    assert m["evaluation_busy_share"] == pytest.approx(30 / 500)
    assert m["idle_evaluation_share"] == pytest.approx(40 / 500), "from 210 to the launch at 250"


def test_only_inside_the_window():
    assert measured(four_steps().range("validation", 350, 900).analysis())["evaluation_share"] == pytest.approx(0.125)


def test_without_ranges_or_frames_nothing_is_known():
    m = measured(Recording().kernel(0, 10).op("aten::add", 0, 1).analysis())
    assert "checkpoint_share" not in m
    assert "evaluation_share" not in m


def test_allocation_after_the_first_step():
    """Of seven calls one is in the first step and one after the last: five in three steps."""
    r = four_steps()
    for start in (10, 110, 120, 210, 220, 310, 450):
        r.call("cudaMalloc", start, start + 5)
    m = measured(r.call("cudaMallocAsync", 130, 131).call("cudaHostAlloc", 140, 141).analysis())
    assert m["alloc_calls_per_step"] == pytest.approx(5 / 3)


def test_allocation_costs_where_the_gpu_is_idle():
    """cudaFree 120-180: the GPU is busy until 140 and launched again at 190. 40 of 200 us, and none in step one."""
    r = Recording().step(1, 0, 100).step(2, 100, 200).op("aten::add", 0, 1).call("cudaFree", 20, 80)
    r.kernel(85, 140, launched=82).call("cudaFree", 120, 180).kernel(195, 200, launched=190)
    assert measured(r.analysis())["alloc_lost_share"] == pytest.approx(0.2)


def test_one_step_cannot_tell_growth_from_thrashing():
    m = measured(Recording().step(1, 0, 100).kernel(0, 10).call("cudaMalloc", 50, 60).analysis())
    assert "alloc_calls_per_step" not in m


@pytest.mark.parametrize(("starts", "lost"), [((10, 110, 210, 290), 0), ((10, 110, 390), 0), ((10, 110, 210, 390), 30)])
def test_without_steps_only_what_goes_on_to_the_end_is_thrashing(starts, lost):
    """Of 400 us, each call 10 us of idle time: from the second quarter on if each of the quarters has one."""
    r = Recording().op("aten::add", 0, 1)
    edges = [0, *sorted(starts), 400]
    for start in starts:
        r.call("cudaMalloc", start, start + 10)
    for start, end in itertools.pairwise(edges):
        r.kernel(start + 10 if start else 0, end, launched=start + 10 if start else -5)
    assert measured(r.analysis())["alloc_lost_share"] == pytest.approx(lost / 400, abs=1e-3)
