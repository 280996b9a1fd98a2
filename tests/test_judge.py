"""The judgement as a whole: what is said first, what is not said, and the exit code."""

from __future__ import annotations

import pytest

from tests.traces import Recording
from whyidle.judge import LEAST_CONFIDENCE, judge, part
from whyidle.model.evidence import Run

HALF = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
SGEMM = "ampere_sgemm_128x64_tn"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def steps(count=4, busy=980, name=HALF, numbers=None):
    """Steps of 1000 us. Each has ten kernels, one behind the other, up to `busy`; launched well ahead."""
    r = Recording()
    for i in range(count):
        number = numbers[i] if numbers else i
        r.step(number, i * 1000, i * 1000 + 1000)
        for k in range(10):
            start, end = i * 1000 + k * busy / 10, i * 1000 + (k + 1) * busy / 10
            r.op("aten::mm", start - 55, start - 45).kernel(start, end, launched=start - 50, name=name)
    return r


def waiting(**more):
    """Half of each step the host is in the DataLoader and the GPU idle."""
    r = steps(busy=500, **more)
    for i in range(4):
        r.range(LOADER, i * 1000 + 400, i * 1000 + 940)
    return r


def report(*recordings, **more):
    return judge(Run(tuple(r.trace(path=f"r{i}.json", rank=i) for i, r in enumerate(recordings)), **more))


def rules(found):
    return [finding.rule for finding in found.findings]


def test_a_healthy_job_gets_one_line():
    found = report(steps())
    assert found.summary.verdict == "Healthy: the GPU was busy 98% of the time."
    assert (found.judged, found.exit_code) == (True, 0)
    assert rules(found) == ["none.compute_bound"]
    assert found.warnings == ()


def test_a_busy_gpu_that_computes_slowly_is_not_healthy():
    """fp32 matrix products on an A100."""
    found = report(steps(name=SGEMM))
    assert found.summary.verdict == "Your GPU was busy 98% of the time, but not all of that was needed."
    assert found.exit_code == 1
    assert "none.compute_bound" not in rules(found)


def test_an_idle_gpu():
    found = report(waiting())
    assert found.summary.verdict.startswith("Your GPU was idle 50% of the time.")
    assert found.findings[0].rule == "input.workers_zero"
    assert (found.judged, found.exit_code) == (True, 1)
    s = found.summary
    assert (s.steps, s.steps_from, s.step_time_s) == (4, "ProfilerStep", pytest.approx(1e-3))
    assert sum(s.idle_by_cause.values()) == pytest.approx(s.gpu_idle_share)
    assert next(iter(s.idle_by_cause)) == "data_wait"
    assert s.gpu_busy_share == pytest.approx(0.5)
    assert s.data_wait_share == pytest.approx(0.54)
    assert [device.device for device in s.devices] == [0]


class TestNotJudged:
    def test_no_gpu_work(self):
        found = report(Recording().op("aten::add", 0, 10).step(1, 0, 20))
        assert found.summary.verdict.startswith("Cannot judge: no GPU operation was recorded")
        assert "ProfilerActivity.CUDA" in found.summary.verdict
        assert (found.judged, found.exit_code) == (False, 2)
        assert found.summary.gpu_busy_share is None
        assert found.findings == found.unknown == ()

    def test_no_evidence_at_all(self):
        assert judge(Run()).exit_code == 2

    def test_few_operations_keep_their_numbers(self):
        found = report(Recording().step(1, 0, 100).kernel(0, 60, launched=-5))
        assert found.summary.verdict == "Cannot judge: only 1 GPU operation was recorded, too few to speak for a job."
        assert found.summary.gpu_busy_share == pytest.approx(0.6)
        assert found.detail.kernels
        assert found.findings == ()
        assert found.exit_code == 2

    def test_the_capture_of_a_graph_has_no_numbers_about_the_gpu(self):
        r = Recording().step(1, 0, 100).call("cudaStreamBeginCapture", 0, 1)
        for i in range(20):
            r.correlation += 1
            r.slice(r.host[1][2], "cudaLaunchKernel", i, i + 0.5, correlation=r.correlation)
        for i in range(10):
            r.kernel(i * 10, i * 10 + 1)
        found = report(r)
        assert found.summary.verdict.startswith("Cannot judge: this records the capture")
        assert found.summary.gpu_idle_share is None
        assert found.summary.idle_by_cause == {}
        assert found.summary.devices == ()
        assert found.summary.step_time_s == pytest.approx(1e-4)
        assert found.exit_code == 2

    def test_idle_time_that_nothing_explains(self):
        """Launched 50 us ahead and started 500 us late: not the host, and nobody else that is seen."""
        r = steps(busy=500)
        for i in range(4):
            r.kernel(i * 1000 + 995, i * 1000 + 1000, launched=i * 1000 + 480, name=HALF)
        found = report(r)
        assert found.summary.verdict.endswith(
            "Of 50% of the time this recording does not show what to change (stalled queue 50%)."
        )
        assert (found.judged, found.exit_code) == (False, 2)

    @pytest.mark.parametrize(("pause", "judged"), [(2, True), (20, False)])
    def test_what_a_gpu_takes_from_kernel_to_kernel_needs_no_finding(self, pause, judged):
        """Kernels of 20 us, launched in time. Pauses of 2 us are those of any GPU; of 20 nobody knows why."""
        r = Recording().step(1, 0, 1000).op("aten::mm", -5, -1)
        for start in range(0, 1000 - pause, 20 + pause):
            r.kernel(start, start + 20, launched=start - 100, name=HALF)
        found = report(r)
        assert found.summary.gpu_idle_share >= 0.05
        assert found.judged == judged
        assert ("this recording does not show" in found.summary.verdict) == (not judged)

    def test_idle_time_that_is_explained_in_part(self):
        """A quarter of the time is the loader's, which is worth saying."""
        r = steps(busy=500)
        for i in range(4):
            r.kernel(i * 1000 + 740, i * 1000 + 745, launched=i * 1000 + 480, name=HALF)
            r.range(LOADER, i * 1000 + 745, i * 1000 + 940)
        found = report(r)
        assert "this recording does not show" in found.summary.verdict, "what is left is told all the same"
        assert (found.judged, found.exit_code) == (True, 1)


class TestDoubt:
    def test_lowers_confidence(self):
        """Two of six steps are missing: 0.9 of every confidence is left."""
        sound, doubted = report(waiting()), report(waiting(numbers=[0, 1, 4, 5]))
        assert rules(doubted) == rules(sound)
        for before, after in zip(sound.findings, doubted.findings, strict=True):
            assert after.confidence == pytest.approx(0.9 * before.confidence)
        assert doubted.warnings == ("2 profiler steps are missing between 0 and 5.",)

    def test_of_many_ranks_is_no_more_than_that_of_one(self):
        one, many = report(waiting(numbers=[0, 1, 4, 5])), report(*[waiting(numbers=[0, 1, 4, 5])] * 8)
        assert many.findings[0].confidence == pytest.approx(one.findings[0].confidence)
        assert many.warnings == one.warnings, "what all ranks share is said once"

    def test_never_leaves_less_than_a_little(self, monkeypatch):
        monkeypatch.setattr("whyidle.judge.LEAST_CONFIDENCE", 0.99)
        assert {finding.confidence for finding in report(waiting()).findings} == {0.99}
        assert 0 < LEAST_CONFIDENCE < 0.1


class TestRemarks:
    def test_time_before_and_after_the_work(self):
        """The GPU works 0-300 of each of two windows of 1000: here of one step, nothing after 300."""
        r = Recording().step(1, 0, 1000)
        for k in range(10):
            r.op("aten::mm", k * 30 - 55, k * 30 - 45).kernel(k * 30, k * 30 + 30, launched=k * 30 - 50, name=HALF)
        verdict = report(r).summary.verdict
        assert "busy 100% of the time from its first to its last operation; 70% of the window lies" in verdict

    def test_collectives_are_not_computing(self):
        """In each step 200 us of collectives alone."""
        r = steps(busy=780)
        for i in range(4):
            r.kernel(i * 1000 + 780, i * 1000 + 980, launched=i * 1000 + 500, name=NCCL, message=64)
        assert report(r).summary.verdict.endswith("20% of the time only collectives ran: busy, but not computing.")


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0%"), (0.004, "less than 1%"), (0.44, "44%"), (0.9969, "more than 99%"), (1 - 1e-12, "100%"), (1, "100%")],
)
def test_what_is_not_all_of_the_time_is_not_called_so(share, said):
    assert part(share) == said


class TestSeveralTraces:
    def test_one_without_gpu_work_is_left_out_and_said_so(self):
        found = report(steps(), Recording().op("aten::add", 0, 10))
        assert found.summary.verdict == "Healthy: the GPU was busy 98% of the time."
        assert found.warnings == ("r1.json: no GPU operation recorded, left out.",)
        assert found.exit_code == 0

    def test_the_run_is_all_of_them(self):
        """One rank at 98%, one at 50%: 26% idle."""
        found = report(steps(), waiting())
        assert found.summary.verdict.startswith("Your GPU was idle 26% of the time.")
        assert [device.busy_share for device in found.summary.devices] == [pytest.approx(0.98), pytest.approx(0.5)]
        assert [file.rank for file in found.run.evidence] == [0, 1]

    def test_warnings_of_the_reader_come_first(self):
        assert report(steps(), warnings=("first",)).warnings == ("first",)
