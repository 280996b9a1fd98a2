"""What a graph makes of a recording: what had been launched before it, other threads and streams, calls that wait."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.programmes import Programme
from tests.traces import Recording
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.model.finding import Edit
from whyidle.replay.engine import alone
from whyidle.replay.operations import run_starts

FASTER_GPU = Edit("scale_device", {"class": "all"}, {"factor": 0.5})
NO_ALLOCATOR = (Edit("scale_host", {"cause": "allocator"}, {"factor": 0.0}), Edit("remove_sync", {"kind": "allocator"}))
US = 1e-3
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def replayed(recording: Recording) -> replay.Replay:
    return replay.replay_of(measure(Run((recording.trace(),))))


def begun_later(recording: Recording, step: int) -> Recording:
    """Return what a profiler records that is switched on at a step: no launch before, but the work that was queued."""
    since = next(start for start, _, _, name, *_ in recording.host if name == f"ProfilerStep#{step}")
    later = Recording()
    later.host = [row for row in recording.host if row[0] >= since]
    later.device = [row for row in recording.device if row[0] >= since]
    return later


@pytest.mark.parametrize(("queue", "copy_us"), [(512, 0), (512, 300), (1024, 300)])
def test_a_queue_that_was_full_when_the_recording_began(queue: int, copy_us: float) -> None:
    """Work that had been launched before is ahead of the first launches, on its own stream, and holds them up."""
    job = Programme(steps=20, kernels=250, kernel_us=60, host_us=12, jitter=0.2, queue=queue, copy_us=copy_us)
    played = replayed(begun_later(job.recording(), 12))
    assert not played.refused
    assert played.graphs[0].queue.length == pytest.approx(queue, rel=0.01)
    assert played.base.mean_ns * US == pytest.approx(job.step_us, rel=0.02)
    truth = job.without(kernel_us=30, copy_us=copy_us / 2).step_us
    assert played.play([FASTER_GPU]).mean_ns * US == pytest.approx(truth, rel=0.04)


def test_a_second_thread_goes_on_while_the_main_thread_stands_in_a_call() -> None:
    r = Recording()
    for step in range(5):
        t = step * 10_000
        r.step(step, t, t + 10_000)
        r.kernel(t + 26, t + 9_000, t + 20).call("cudaStreamSynchronize", t + 30, t + 9_008)
        r.copy("Memcpy HtoD (Pinned -> Device)", t + 5_006, t + 5_500, t + 5_000, thread="1/9", stream=20)
    (g,) = replayed(r).graphs
    late = alone(g).began - (g.began - g.origin)
    assert np.abs(late).max() * US < 1


def freeing() -> Recording:
    """Return steps of 5 kernels of 1 ms, after which memory is given back: a call that waits for them, and 300 us."""
    r = Recording()
    for step in range(6):
        t = step * 6_000
        r.step(step, t, t + 6_000)
        for i in range(5):
            r.kernel(t + 56 + 1_001 * i, t + 1_056 + 1_001 * i, t + 50 + 20 * i)
        r.call("cudaFree", t + 200, t + 5_360)
    return r


def test_memory_that_is_given_back_waits_for_the_device() -> None:
    assert replayed(freeing()).play([FASTER_GPU]).mean_ns * US == pytest.approx(6_000 - 2_500, abs=20)


def test_memory_that_is_not_given_back_holds_up_nobody() -> None:
    """The GPU does not idle any more: 5 kernels, and what the host does meanwhile."""
    assert replayed(freeing()).play(NO_ALLOCATOR).median_ns * US == pytest.approx(5_005, abs=10)


def test_an_allocation_that_does_not_wait_stays_as_it_is() -> None:
    r = Recording()
    for step in range(6):
        t = step * 6_000
        r.step(step, t, t + 6_000)
        r.kernel(t + 56, t + 900, t + 50).kernel(t + 906, t + 5_900, t + 70)
        r.call("cudaMalloc", t + 800, t + 1_100).call("cudaStreamSynchronize", t + 1_200, t + 5_908)
    job = replayed(r)
    assert job.base.mean_ns * US == pytest.approx(6_000, abs=1)
    assert job.play(NO_ALLOCATOR).mean_ns * US == pytest.approx(6_000, abs=1)


def test_collectives_that_are_launched_far_ahead_tell_nothing_of_launches() -> None:
    """They wait for the backward pass on another stream: all of it is twice as fast on such a GPU."""
    r = Recording()
    for step in range(6):
        t = step * 10_000
        r.step(step, t, t + 10_000)
        for i in range(4):
            r.kernel(t + 106 + 2_001 * i, t + 2_106 + 2_001 * i, t + 100 + 20 * i)
            r.kernel(t + 2_108 + 2_001 * i, t + 2_908 + 2_001 * i, t + 110 + 20 * i, name=NCCL, stream=30 + i)
        r.call("cudaDeviceSynchronize", t + 200, t + 8_920)
    assert replayed(r).play([FASTER_GPU]).mean_ns * US == pytest.approx(10_000 - 8_800 / 2, abs=20)


def test_a_stream_of_which_no_launch_was_recorded() -> None:
    r = Recording()
    for step in range(6):
        t = step * 10_000
        r.step(step, t, t + 10_000)
        r.kernel(t + 26, t + 1_000, t + 20).kernel(t + 1_002, t + 9_000, None, stream=30)
        r.call("cudaDeviceSynchronize", t + 40, t + 9_008)
    job = replayed(r)
    assert job.base.gpu_idle_share == pytest.approx(0.103, abs=0.01)
    assert job.play([FASTER_GPU]).mean_ns * US == pytest.approx(10_000 - 9_000 / 2, abs=30)


def test_threads_that_take_turns_are_one_though_no_operator_was_recorded() -> None:
    """The backward pass has a thread of its own: what holds it up is no work of the main thread."""
    r = Recording()
    for step in range(6):
        t = step * 10_000
        r.step(step, t, t + 10_000)
        r.kernel(t + 26, t + 4_000, t + 20).kernel(t + 4_001, t + 9_000, t + 60, thread="1/2")
        r.call("cudaStreamSynchronize", t + 70, t + 9_008, thread="1/2")
        r.kernel(t + 9_026, t + 9_900, t + 9_020)
    assert replayed(r).play([FASTER_GPU]).mean_ns * US == pytest.approx(10_000 - 9_000 / 2, abs=60)


def test_a_backlog_is_left_out_with_and_without_a_change() -> None:
    """Else the slow first step would count before the change, and not after it."""
    r = Recording()
    r.kernel(-300, 400, None)
    for step, (begin, end) in enumerate([(0, 10_000), (10_000, 14_000), (14_000, 18_000), (18_000, 22_000)]):
        r.step(step, begin, end)
        r.kernel(max(begin, 400) + 10, end - 100, begin + 2).call("cudaDeviceSynchronize", begin + 20, end - 92)
    job = replayed(r)
    assert job.base.first == job.play([FASTER_GPU]).first


@pytest.mark.parametrize(("stream", "begins"), [([], []), ([1, 1, 2, 2, 1], [0, 0, 2, 2, 4])])
def test_where_runs_on_one_stream_begin(stream: list[int], begins: list[int]) -> None:
    assert run_starts(np.array(stream, np.intp)).tolist() == begins
