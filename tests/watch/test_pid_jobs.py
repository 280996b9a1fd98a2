"""Real trainings on the CPU, each held up in one way: `whyidle watch --pid` names the family, and disturbs none."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("running jobs are looked at on Linux only", allow_module_level=True)
pytest.importorskip("torch", reason="the jobs train with PyTorch")

from tests.watch.jobs import Job, quota, training
from whyidle.model.finding import Report
from whyidle.watch.pid.stacks import _program
from whyidle.watch.pid.verdict import watch_pid

LOOK_S = 3.0
STACKS = _program() is not None or shutil.which("py-spy") is not None
# Other programs use the CPUs of a machine that runs tests: that may be what is seen then, and is true.
CROWDED = "host.cpu_oversubscription"


def rules(report: Report) -> list[str]:
    return [finding.rule for finding in report.findings]


def both(job: Job) -> tuple[Report, Report]:
    """Look at a job at once with stacks and without."""
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(watch_pid, job.pid, LOOK_S, stacks=stacks) for stacks in (True, False)]
    return found[0].result(), found[1].result()


def test_one_worker_that_computes(tmp_path: Path) -> None:
    with training("transform", tmp_path) as job:
        with_stacks, without = both(job)
    for report in (with_stacks, without):
        (finding,) = report.findings
        assert finding.rule in {"input.workers_too_few", "input.cpu_transform"}
        assert {"input.workers_too_few", "input.cpu_transform"} <= {finding.rule, *finding.candidates}
        assert "1 worker computes" in report.summary.verdict
        assert "whyidle run -- " in report.summary.verdict, "the next step"
        assert (finding.lost_share or 0.0) > 0.2
        assert not report.healthy
    assert without.findings[0].confidence <= 0.6
    assert any("stacks" in warning for warning in without.warnings)
    if STACKS:
        assert "training.py" in with_stacks.findings[0].locations[0].file


def test_workers_that_wait_for_reads(tmp_path: Path) -> None:
    with training("storage", tmp_path) as job:
        with_stacks, by_the_kernel_alone = both(job)
    for report in (with_stacks, by_the_kernel_alone):
        (finding,) = report.findings
        assert finding.rule == "input.storage"
        assert "are blocked" in report.summary.verdict
        assert str(tmp_path / "slow") in finding.seen, "the file that they are blocked on"
    assert by_the_kernel_alone.findings[0].confidence <= 0.6


def test_a_quota_that_holds_the_job_back(tmp_path: Path) -> None:
    with quota(0.1) as group:
        if group is None:
            pytest.skip("no control group can be made here: tests/watch/test_pid_judgement.py has made-up counters")
        with training("quota", tmp_path, group) as job:
            report = watch_pid(job.pid, LOOK_S)
    (finding,) = report.findings
    assert finding.rule == "host.cpu_quota"
    assert "0.1 CPUs" in report.summary.verdict


@pytest.mark.skipif(not STACKS, reason="py-spy is not installed")
def test_a_training_that_makes_its_batches_itself(tmp_path: Path) -> None:
    with training("zero", tmp_path) as job:
        report = watch_pid(job.pid, LOOK_S)
    assert rules(report) in (["input.workers_zero"], [CROWDED])


def test_a_job_that_computes_is_healthy_and_undisturbed(tmp_path: Path) -> None:
    with training("healthy", tmp_path) as job:
        before, met = job.steps, Traces(job)
        report = watch_pid(job.pid, LOOK_S)
        met.end()
        after = job.steps
        threading.Timer(2.0, os.killpg, (job.pid, signal.SIGKILL)).start()
        cut = watch_pid(job.pid, 60.0, stacks=False)
    assert rules(report) in ([], [CROWDED])
    if not report.findings:
        assert report.summary.verdict.startswith(("Nothing was seen", "Not judged"))
    assert report.summary.on_gpu is False
    assert after > before, "it goes on meanwhile"
    assert met.tracers == {"0"}, "nobody traced it"
    assert not met.states & {"T", "t"}, "nor was it stopped"
    assert any("the job ended after" in warning for warning in cut.warnings), "and then it was killed while looked at"
    assert (cut.summary.watched_s or 99.0) < 30


def test_a_job_that_does_nothing_is_not_called_healthy(tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text("import time\ntime.sleep(1000)\n")
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, str(tmp_path / "sleep.py")])
    try:
        time.sleep(1)
        report = watch_pid(pid, 1.5)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert not report.judged
    assert "next to nothing" in report.summary.verdict


class Traces:
    """Notes who traces a job and in which state it is, until the end."""

    def __init__(self, job: Job) -> None:
        self.tracers: set[str] = set()
        self.states: set[str] = set()
        self._job, self._over = job, threading.Event()
        self._thread = threading.Thread(target=self._note, daemon=True)
        self._thread.start()

    def _note(self) -> None:
        while not self._over.wait(0.01):
            self.tracers.add(self._job.status("TracerPid"))
            self.states.add(self._job.status("State"))

    def end(self) -> None:
        self._over.set()
        self._thread.join()
