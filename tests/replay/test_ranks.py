"""Ranks in one replay: who comes late holds up all, until it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import Recording
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run, Trace
from whyidle.model.finding import Edit
from whyidle.replay.ranks import shifts

STRAGGLER = Edit("scale_device", {"class": "collective_wait"}, {"factor": 0.0})
SHARED = Edit("scale_device", {"class": "collective_wait", "to": "mean"}, {"factor": 0.0})
US = 1e-3


def rank(number: int, computes: list[int], ends: list[int], late: int = 0) -> Trace:
    """Return a rank that computes so long in each step, us; all leave the collective at `ends`, by its own clock."""
    r = Recording()
    begin = 0
    for step, (computed, end) in enumerate(zip(computes, ends, strict=True)):
        r.step(step, begin + late, end + late)
        r.kernel(begin + 10 + late, begin + 10 + computed + late, begin + 5 + late, name="sgemm")
        r.kernel(
            begin + 11 + computed + late, end + late, begin + 12 + late, name="ncclDevKernel_AllReduce_Sum_f32",
            message=1000, collective="allreduce",
        )  # fmt: skip
        r.call("cudaDeviceSynchronize", begin + 30 + late, end + late)
        begin = end
    return replace(r.trace(path=f"rank{number}.json", rank=number), world_size=4)


def job(*computes: list[int], clocks: int = 0) -> replay.Replay:
    steps = list(zip(*computes, strict=True))
    ends = [sum(max(step) for step in steps[: i + 1]) + 61 * (i + 1) for i in range(len(steps))]
    traces = [rank(number, of, ends, number * clocks) for number, of in enumerate(computes)]
    played = replay.replay_of(measure(Run(tuple(traces))))
    assert not played.refused
    return played


@pytest.mark.parametrize("clocks", [0, 7_000_000])
def test_a_late_rank_is_as_quick_as_the_others(clocks: int) -> None:
    """Whatever the clocks of the ranks say."""
    slow = job([400] * 6, [400] * 6, [700] * 6, [400] * 6, clocks=clocks)
    assert slow.base.median_ns * US == pytest.approx(761, abs=2)
    assert slow.play([STRAGGLER]).median_ns * US == pytest.approx(461, abs=2)
    assert slow.play([replace(STRAGGLER, coefficients={"factor": 0.5})]).median_ns * US == pytest.approx(611, abs=2)
    assert not slow.local


def test_of_two_ranks_the_later_one_is_late() -> None:
    assert job([400] * 6, [700] * 6).play([STRAGGLER]).median_ns * US == pytest.approx(461, abs=2)


def test_work_that_is_shared_out_equally() -> None:
    one, other = [300, 700] * 3, [700, 300] * 3
    shared = job(one, other)
    assert shared.base.median_ns * US == pytest.approx(761, abs=2)
    assert shared.play([SHARED]).median_ns * US == pytest.approx(561, abs=2)


def test_faster_collectives_are_faster_for_all() -> None:
    faster = Edit("scale_device", {"class": "collective"}, {"factor": 0.5})
    played = job([400] * 6, [700] * 6)
    assert played.play([faster]).median_ns * US == pytest.approx(761 - 25, abs=3)
    without = Edit("remove_device", {"class": "collective"})
    assert played.play([without]).median_ns * US == pytest.approx(711, abs=3)


def test_a_rank_alone_keeps_what_it_waits() -> None:
    ends = [761 * (i + 1) for i in range(6)]
    alone = replay.replay_of(measure(Run((rank(0, [400] * 6, ends),))))
    assert not alone.refused
    assert alone.local
    assert alone.base.median_ns * US == pytest.approx(761, abs=2)


def test_clocks_of_ranks_that_share_no_collective_with_the_first() -> None:
    """They are set by ranks that do, and else by each other."""
    ended = [{0: 5.0, 1: 7.0}, {1: 10.0, 2: 14.0}, {3: 1.0, 4: 9.0}]
    assert shifts(ended, 5) == [0.0, 2.0, 6.0, 0.0, 8.0]
