"""What must not be believed at first sight: ranks, devices, threads, clocks and losses that are not what they seem."""

from __future__ import annotations

import pytest

from tests.traces import MAIN, Recording, measured
from whyidle.judge import judge
from whyidle.measure import measure
from whyidle.measure.sanity import doubts
from whyidle.model.evidence import Gpu, Kind, Run

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
LOADER = "enumerate(DataLoader)#{}Iter.__next__"


def busy(count=4, length=1000, device=0):
    """Steps that are busy from end to end, ten kernels each, launched ahead."""
    r = Recording()
    for i in range(count):
        r.step(i, i * length, (i + 1) * length)
        for k in range(10):
            at = i * length + k * length / 10
            r.op("aten::mm", at - 55, at - 45).kernel(at, at + length / 10, launched=at - 50, device=device)
    return r


def run(*recordings, **more):
    return Run(tuple(r.trace(path=f"r{i}.json", rank=i, **more) for i, r in enumerate(recordings)))


def messages(recording):
    return [doubt.message for doubt in doubts(recording.analysis())]


class TestRanks:
    def test_one_that_cannot_be_believed_is_left_out(self):
        found = judge(run(busy(), busy(), Recording().step(0, 0, 1000).kernel(0, 10, launched=-5)))
        assert found.judged
        assert [device.rank for device in found.summary.devices] == [0, 1]
        assert any("r2.json: left out, only 1 GPU operation" in warning for warning in found.warnings)

    def test_one_that_has_no_loader_does_not_hide_that_of_another(self):
        """Rank 0 loads for half of each step; rank 1 has none and is busy: a quarter of both windows."""
        loading = Recording()
        for i in range(4):
            loading.step(i, i * 1000, (i + 1) * 1000).range(
                LOADER.format("_SingleProcessDataLoader"), i * 1000, i * 1000 + 500
            )
            for k in range(5):
                at = i * 1000 + 500 + k * 100
                loading.op("aten::mm", at - 3, at - 1).kernel(at, at + 100, launched=at - 2 if k == 0 else at - 50)
        m = measure(run(loading, busy())).measurements
        assert m.number("idle_loader_zero_share") == pytest.approx(0.25, abs=0.01)

    def test_a_share_of_something_is_weighted_by_that(self):
        """Rank 0 waits 300 us for workers, a third of it first; rank 1 waits 10, all of it first: 110 of 310."""
        parts = []
        for waits in ([100, 100, 100], [10]):
            r = Recording()
            for i in range(4):
                r.step(i, i * 1000, (i + 1) * 1000)
                wait = waits[i] if i < len(waits) else 0
                r.range(LOADER.format("_MultiProcessingDataLoader"), i * 1000, i * 1000 + max(wait, 1))
                r.op("aten::mm", i * 1000 + wait, i * 1000 + wait + 5)
                for k in range(3):
                    r.kernel(
                        i * 1000 + wait + 10 + k,
                        i * 1000 + (wait + 11 + k if k < 2 else 1000),
                        launched=i * 1000 + wait + 2,
                    )
            parts.append(r)
        m = measure(run(*parts)).measurements
        assert m.number("loader_first_wait_share") == pytest.approx(110 / 310, abs=0.02)

    def test_of_one_collective_the_shortest_did_not_wait(self):
        """Rank 1 enters each all-reduce 400 us after rank 0: rank 0 waits 40% of every step, rank 1 not at all."""
        early, late = Recording(), Recording()
        for i in range(4):
            for r, start in ((early, 500), (late, 900)):
                r.step(i, i * 1000, (i + 1) * 1000)
                for k in range(5):
                    at = i * 1000 + k * start / 5
                    r.op("aten::mm", at - 55, at - 45).kernel(at, at + start / 5, launched=at - 50)
                r.kernel(i * 1000 + start, (i + 1) * 1000, launched=i * 1000 + start - 50, name=NCCL, message=8)
        m = measure(run(early, late)).measurements
        assert [part.value for part in m.each("collective_wait_share")] == [pytest.approx(0.4), pytest.approx(0)]
        assert m.number("collective_wait_share") == pytest.approx(0.2)
        found = judge(run(early, late))
        assert "dist.straggler" in [finding.rule for finding in found.findings]
        assert not found.healthy

    def test_that_do_not_belong_together_are_told(self):
        h100 = (Gpu(0, "NVIDIA H100 80GB HBM3", 132, (9, 0)),)
        other = busy().trace(path="b.json", rank=1, gpus=h100)
        found = judge(Run((busy().trace(path="a.json", rank=0), other)))
        assert any("look like those of different jobs" in warning for warning in found.warnings)
        assert not any("different jobs" in warning for warning in judge(run(busy(), busy())).warnings)


class TestDevices:
    def test_one_that_was_only_touched_is_not_idle(self):
        found = judge(
            run(busy(count=12, device=1).copy("Memcpy HtoD (Pinned -> Device)", 500, 510, launched=490, device=0))
        )
        assert found.summary.gpu_busy_share == pytest.approx(1, abs=0.01)
        assert any("GPU 0 ran 1 operation" in warning for warning in found.warnings)

    def test_two_that_work_are_both_judged(self):
        found = judge(
            run(
                busy()
                .copy("Memcpy HtoD (Pinned -> Device)", 500, 510, launched=490, device=1)
                .copy("Memcpy HtoD (Pinned -> Device)", 1500, 1510, launched=1490, device=1)
            )
        )
        assert [device.device for device in found.summary.devices] == [0, 1]


class TestLimits:
    def test_time_of_a_gpu_bound_step_counts(self):
        assert measured(busy().analysis())["gpu_limited_share"] == 1

    def test_time_before_a_late_host_does_not(self):
        """Each kernel of 50 us is followed by a launch that comes 50 us late: a shorter one would widen the gap."""
        r = Recording().step(0, 0, 1000)
        for k in range(10):
            r.op("aten::mm", k * 100 - 12, k * 100 - 2).kernel(k * 100, k * 100 + 50, launched=k * 100 - 5)
        assert measured(r.analysis())["gpu_limited_share"] == pytest.approx(0.1)

    def test_unless_the_host_was_late_because_it_had_waited(self):
        """The host stands in .item() while the kernel runs, then launches the next: all of the kernel counts."""
        r = Recording().step(0, 0, 1000)
        for k in range(10):
            at = k * 100
            r.op("aten::mm", at - 12, at - 2).kernel(at, at + 50, launched=at - 5)
            r.op("aten::item", at + 1, at + 55).call("cudaStreamSynchronize", at + 2, at + 54)
        assert measured(r.analysis())["gpu_limited_share"] == pytest.approx(1)


class TestDoubts:
    def test_launches_lost_at_the_end_are_more_than_a_queue(self):
        r = busy(count=2)
        for k in range(20):
            r.call("cudaLaunchKernel", 2000 + k * 100, 2005 + k * 100)
            r.host[-1] = (*r.host[-1][:5], 10_000 + k, *r.host[-1][6:])
        assert any("50% of the launches" in message for message in messages(r))

    def test_launches_that_only_wait_at_the_end(self):
        r = busy(count=2)
        for k in range(5):
            r.call("cudaLaunchKernel", 1960 + k, 1961 + k)
            r.host[-1] = (*r.host[-1][:5], 10_000 + k, *r.host[-1][6:])
        assert not any("of the launches" in message for message in messages(r))

    def test_a_long_step_that_holds_the_idle_time(self):
        r = Recording().step(0, -9000, 0)
        for later in (busy(count=5),):
            r.host += [(s, e, k, n.replace("#", "#1"), *rest) for s, e, k, n, *rest in later.host]
            r.device, r.correlation = later.device, later.correlation
        r.op("aten::mm", -8990, -8980)
        assert any("without it the GPU idles 0%" in message for message in messages(r))

    def test_the_profilers_own_work(self):
        """The profiler's buffer takes 300 of 1000 us: not the program's, and not told as Python's."""
        r = Recording().step(0, 0, 1000).op("aten::mm", 0, 5)
        for k in range(10):
            r.kernel(400 + k * 60, 460 + k * 60, launched=395 + (k > 0) * (k * 60 - 50))
        r.slice(Kind.OVERHEAD, "Activity Buffer Request", 50, 350, "-1/0")
        found = measured(r.analysis())
        assert found["idle_unknown_share"] == pytest.approx(0.3)
        assert any("the profiler itself holds up the GPU for 30%" in message for message in messages(r))

    def test_a_call_that_is_slow_in_every_step_is_no_first_use(self):
        r = Recording()
        for i in range(6):
            at = i * 10_000
            r.step(i, at, at + 10_000).call("cudaGetDeviceProperties", at + 100, at + 4000)
            r.op("aten::mm", at + 4000, at + 4010).kernel(at + 4020, at + 10_000, launched=at + 4012)
        found = measured(r.analysis())
        assert found["idle_compile_share"] == 0
        assert found["idle_dispatch_share"] == pytest.approx(0.39, abs=0.01)


def test_gradients_of_several_micro_steps_make_one_step():
    """Four ranges to one Optimizer.step: the step is the update."""
    r = Recording()
    for i in range(24):
        at = i * 100
        r.range("micro_step", at, at + 95, MAIN).op("aten::mm", at, at + 5).kernel(at + 10, at + 100, launched=at + 6)
        if i % 4 == 3:
            r.range("Optimizer.step#SGD.step", at + 96, at + 99)
    assert r.analysis().t.steps.source == "Optimizer.step"
    assert len(r.analysis().t.steps) == 5
