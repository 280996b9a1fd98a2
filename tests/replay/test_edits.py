"""What each kind of edit does to a small programme, against the programme that runs with that changed."""

from __future__ import annotations

import pytest

from tests.laws.programmes import Programme
from tests.traces import Recording
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.model.finding import Edit

US = 1e-3  # ns in us
HOST_BOUND = Programme(steps=8, kernels=30, kernel_us=5, host_us=25)


def replayed(recording: Recording) -> replay.Replay:
    job = replay.replay_of(measure(Run((recording.trace(),))))
    assert not job.refused
    return job


def steady(job: replay.Replay, *edits: Edit) -> float:
    return job.play(edits).median_ns * US


@pytest.mark.parametrize(
    ("programme", "changed", "edit"),
    [
        (
            Programme(steps=8, read_every=5),
            {"read_every": 0},
            Edit("remove_sync", {"kind": "framework"}),
        ),
        (
            Programme(steps=8, data_us=3000),
            {"data_us": 0},
            Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.0}),
        ),
        (
            Programme(steps=8, data_us=3000),
            {"data_us": 1500},
            Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.5}),
        ),
        (
            Programme(steps=8, copy_us=900, pageable=True),
            {"pageable": False},
            Edit("remove_sync", {"kind": "upload"}),
        ),
        (
            Programme(steps=8, kernel_us=60, host_us=10, queue=64),
            {"kernel_us": 30},
            Edit("scale_device", {"class": "all"}, {"factor": 0.5}),
        ),
    ],
    ids=["a read", "waiting for data", "half of it", "a copy that blocks", "kernels, behind a full queue"],
)
def test_as_the_programme_runs(programme: Programme, changed: dict[str, float], edit: Edit) -> None:
    job = replayed(programme.recording())
    assert steady(job, edit) == pytest.approx(programme.without(**changed).step_us, rel=0.02)
    assert steady(job, edit) < steady(job) * 0.95


def test_factors_of_the_same_host_time_multiply() -> None:
    job = replayed(Programme(steps=8, data_us=4000, kernel_us=2).recording())
    half = Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.5})
    assert steady(job) - steady(job, half) == pytest.approx(2000, rel=0.02)
    assert steady(job) - steady(job, half, half) == pytest.approx(3000, rel=0.02)


def test_launches_that_become_one() -> None:
    """A CUDA graph: its kernels run one after the other, and the host does not launch each."""
    job = replayed(HOST_BOUND.recording())
    merged = Edit("merge_launches", {"range": "step"})
    host = Edit("scale_host", {"cause": "dispatch,python"}, {"factor": 0.0})
    assert steady(job, merged, host) == pytest.approx(30 * (5 + 1), rel=0.15)
    assert steady(job, merged) <= steady(job)


def test_kernels_that_go_away_take_their_launches_along() -> None:
    r = Recording()
    for step in range(6):
        t = step * 1000
        r.step(step, t, t + 1000)
        r.range("Optimizer.zero_grad#SGD.zero_grad", t + 5, t + 210)
        for i in range(4):
            r.op("aten::zero_", t + 10 + 50 * i, t + 50 + 50 * i)
            r.kernel(t + 20 + 50 * i, t + 60 + 50 * i, t + 12 + 50 * i, name="fill")
        r.op("aten::mm", t + 210, t + 240).kernel(t + 222, t + 990, t + 215, name="sgemm")
        r.call("cudaDeviceSynchronize", t + 250, t + 995)
    job = replayed(r)
    gone = Edit("remove_device", {"range": "zero_grad"})
    assert steady(job) == pytest.approx(1000, rel=0.01)
    assert steady(job, gone, Edit("scale_host", {"range": "zero_grad"}, {"factor": 0})) == pytest.approx(795, rel=0.02)
    assert 795 < steady(job, gone) < 900  # what lies between the operators stays
    assert job.graphs[0].duration.sum() == 6 * (4 * 40 + 768) * 1000  # plays change no graph


def test_copies_that_run_beside() -> None:
    r = Recording()
    for step in range(6):
        t = step * 1000
        r.step(step, t, t + 1000)
        r.copy("Memcpy HtoD (Pinned -> Device)", t + 10, t + 410, t + 2)
        r.kernel(t + 411, t + 990, t + 8).call("cudaDeviceSynchronize", t + 20, t + 995)
    job = replayed(r)
    assert steady(job) == pytest.approx(1000, rel=0.01)
    assert steady(job, Edit("overlap_copies", {"copy": "HtoD"})) == pytest.approx(600, rel=0.02)


def training(buckets: int) -> Recording:
    """Return steps of ten backward kernels, and gradients that travel behind them, before the update."""
    r = Recording()
    for step in range(6):
        t = step * 2000
        r.step(step, t, t + 2000)
        r.op("autograd::engine::evaluate_function: MmBackward0", t, t + 140)
        for i in range(10):
            r.kernel(t + 10 + 100 * i, t + 110 + 100 * i, t + 5 + 10 * i, name="sgemm")
        for i in range(buckets):
            took = 800 // buckets
            start = t + 1112 + took * i
            r.kernel(
                start, start + took, t + 150 + 6 * i, name="ncclDevKernel_AllReduce_Sum_f32", stream=20,
                message=1 << 20, collective="allreduce", payload=(100 << 20) // buckets,
            )  # fmt: skip
        r.range("Optimizer.step#SGD.step", t + 180, t + 200)
        r.kernel(t + 1914, t + 1990, t + 185, name="sgd").call("cudaDeviceSynchronize", t + 210, t + 1995)
    return r


@pytest.mark.parametrize("buckets", [1, 4])
def test_gradients_that_travel_beside_the_backward_pass(buckets: int) -> None:
    job = replayed(training(buckets))
    # of 800 us that travel the last quarter waits for the end of the pass: a bucket of 25 MiB of 100
    assert steady(job) == pytest.approx(2000, rel=0.01)
    assert steady(job, Edit("overlap_collectives", {"class": "gradients"})) == pytest.approx(1010 + 200 + 90, rel=0.01)
    slower = Edit("overlap_collectives", {"class": "gradients"}, {"slowdown": 1.1})
    assert 1380 <= steady(job, slower) <= 1380 + 110  # it begins at the end of a kernel
