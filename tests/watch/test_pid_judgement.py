"""What a look at a running job is taken for: made-up evidence, and the finding that it has to give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.measure.live import measure
from whyidle.model.evidence import Series, Stack
from whyidle.model.finding import Report
from whyidle.model.live import DOINGS, Live, LiveProcess, OpenFile
from whyidle.render import renderer
from whyidle.render.base import Look
from whyidle.watch.pid.verdict import judge

MACHINE = {"cpus_online": 16, "cpu_quota": 16, "cpus_allowed": 16, "job_cpu_share": 0.2, "cpus_taken": 0.1,
           "cpu_throttled_share": 0.0}  # fmt: skip
DATALOADER = "/venv/site-packages/torch/utils/data/dataloader.py"
FETCH = "/venv/site-packages/torch/utils/data/_utils/fetch.py"
WORKER = "/venv/site-packages/torch/utils/data/_utils/worker.py"
WAITING = Stack(
    ((DATALOADER, 1291, "_MultiProcessingDataLoaderIter._try_get_data"), ("train.py", 9, "main")), 100, "other"
)
LOADING = Stack(
    (
        ("/venv/site-packages/PIL/Image.py", 80, "open"),
        ("data.py", 8, "Photos.__getitem__"),
        (FETCH, 54, "_MapDatasetFetcher.fetch"),
    ),
    100,
    "other",
)
IN_WORKER = replace(LOADING, frames=(*LOADING.frames, (WORKER, 374, "_worker_loop"), *WAITING.frames))
RESTING = Stack((("/lib/python3.11/selectors.py", 415, "select"), (WORKER, 350, "_worker_loop")), 100, "other")


def rank(cpu: float = 0.1, delay: float = 0.0, whole: float | None = None, **more: object) -> LiveProcess:
    """Return a training process; shares of 10 s."""
    whole = cpu if whole is None else whole
    process = LiveProcess(
        10, 1, "python", "rank", ("python", "train.py"), 10.0, cpu_s=whole * 10, main_cpu_s=cpu * 10,
        main_run_delay_s=delay * 10, threads_run_delay_s=delay * 10, read_bytes=0, doing={"wait": 100},
    )  # fmt: skip
    return replace(process, **more)  # type: ignore[arg-type]


def workers(count: int, cpu: float, delay: float = 0.0, read: int = 0, **more: object) -> list[LiveProcess]:
    """Return workers of it; `read` is the percent of samples in a read."""
    doing = {"read": read, "wait": 100 - read}
    one = LiveProcess(
        20, 10, "pt_data_worker", "worker", ("python", "train.py"), 10.0, cpu_s=cpu * 10, main_cpu_s=cpu * 10,
        main_run_delay_s=delay * 10, threads_run_delay_s=delay * 10, read_bytes=0, cpus_allowed=16, doing=doing,
    )  # fmt: skip
    return [replace(one, pid=20 + number, **more) for number in range(count)]  # type: ignore[arg-type]


def gpu(percent: float) -> tuple[Series, ...]:
    return (Series("utilization_percent", "", np.arange(20), np.full(20, percent), device=0),)


def counters(percent: float = 97.0, **values: float) -> tuple[Series, ...]:
    """Return what NVML tells of a GPU that works at its full clock, but for what is given."""
    told = {
        "utilization_percent": percent, "sm_clock_mhz": 1900.0, "throttle_reasons": 0.0, "temperature_c": 60.0,
        "memory_used_bytes": 40e9, "processes_foreign": 0.0, "memory_foreign_bytes": 0.0, **values,
    }  # fmt: skip
    return tuple(Series(name, "", np.arange(20), np.full(20, value), device=0) for name, value in told.items())


FACTS = {0: {"sm_clock_max_mhz": 1980, "power_limit_w": 700.0, "power_limit_default_w": 700.0, "memory_bytes": 80e9}}


def look(*processes: LiveProcess, on_gpu: bool = False, **machine: float) -> Live:
    return Live(
        10, 10.0, processes, {**MACHINE, **machine}, on_gpu=on_gpu, stacks="" if processes[0].stacks else "none"
    )


def only(report: Report) -> str:
    (finding,) = report.findings
    return finding.rule


def test_workers_compute_and_cpus_are_free() -> None:
    report = judge(look(rank(), *workers(2, 0.98)))
    assert only(report) == "input.workers_too_few"
    assert report.summary.verdict.startswith(
        "The training waits for its DataLoader's workers: 2 workers compute 98% of the time, "
        "the main thread sleeps 90%."
    )
    (finding,) = report.findings
    assert finding.confidence <= 0.6
    assert finding.candidates == ("input.cpu_transform",)
    assert "num_workers=4" in finding.fixes[0].change


def test_workers_compute_and_no_cpu_is_free() -> None:
    assert only(judge(look(rank(), *workers(16, 0.98), job_cpu_share=0.99))) == "input.cpu_transform"


def test_stacks_make_it_surer_and_show_the_line() -> None:
    seen = look(rank(stacks=(WAITING,)), *workers(2, 0.98, stacks=(IN_WORKER,)))
    (finding,) = judge(seen).findings
    assert finding.confidence > 0.6
    assert (finding.locations[0].file, finding.locations[0].line) == ("data.py", 8)


def test_workers_blocked_in_reads() -> None:
    files = (OpenFile("/data/train/1.tar", "nfs4", 4_000_000, 90),)
    report = judge(look(rank(), *workers(4, 0.05, read=93, files=files)))
    assert only(report) == "input.storage"
    assert "/data/train/1.tar on nfs4" in report.findings[0].seen


def test_workers_blocked_in_a_batch_that_only_a_stack_tells() -> None:
    """A client of an object store polls its socket: to the kernel that is the same as having nothing to do."""
    starved = look(rank(stacks=(WAITING,)), *workers(4, 0.05, stacks=(IN_WORKER,)))
    assert only(judge(starved)) == "input.storage"
    assert judge(look(rank(), *workers(4, 0.05))).findings == ()


def test_workers_that_rest_are_not_to_blame() -> None:
    report = judge(
        look(rank(stacks=(Stack((("net.py", 3, "wait"),), 100, "other"),)), *workers(4, 0.0, stacks=(RESTING,)))
    )
    assert report.findings == ()
    assert not report.judged


def test_a_quota_that_stops_the_job() -> None:
    report = judge(look(rank(0.3), *workers(4, 0.3, 0.6), cpu_throttled_share=0.6, cpu_quota=2, cpus_allowed=2))
    assert only(report) == "host.cpu_quota"
    assert "docker run --cpus=4" in report.findings[0].fixes[0].change


def test_many_threads_on_few_cpus() -> None:
    report = judge(look(rank(0.2, 0.7, 2.0, threads_run_delay_s=200.0), cpus_allowed=4, job_cpu_share=0.9))
    assert only(report) == "host.cpu_oversubscription"


def test_other_programs_have_the_cpus() -> None:
    report = judge(look(rank(0.2, 0.75), cpus_online=2, cpus_allowed=2, cpu_quota=2, cpus_taken=1.8))
    assert only(report) == "host.cpu_oversubscription"
    assert "other programs use 1.8 of the machine's 2 CPUs" in report.findings[0].seen


def test_batches_made_by_the_training_process() -> None:
    report = judge(look(rank(0.9, stacks=(LOADING, replace(WAITING, frames=(("train.py", 20, "step"),))))))
    assert only(report) == "input.workers_zero"
    assert report.findings[0].lost_share == 0.5


def test_a_gpu_that_works_all_along_waits_for_nobody() -> None:
    seen = replace(look(rank(), *workers(2, 0.98), on_gpu=True), gpu_series=gpu(99))
    report = judge(seen)
    assert report.findings == ()
    assert report.exit_code == 0
    assert report.summary.verdict.startswith("Nothing was seen to hold the job up: NVML sees kernels 99%")


def test_no_more_is_lost_than_the_gpu_rests() -> None:
    seen = replace(look(rank(), *workers(2, 0.98), on_gpu=True), gpu_series=gpu(60))
    assert judge(seen).findings[0].lost_share == pytest.approx(0.4)


def test_python_while_the_gpu_rests() -> None:
    seen = replace(
        look(rank(0.97, stacks=(Stack((("train.py", 20, "step"),), 100, "other"),)), on_gpu=True), gpu_series=gpu(20)
    )
    report = judge(seen)
    assert only(report) == "host.python_overhead"
    assert report.findings[0].locations[0].line == 20


def test_what_the_gpu_does_is_not_known() -> None:
    busy = judge(look(rank(0.99), on_gpu=True))
    assert not busy.judged
    assert "what its GPU does was not seen" in busy.summary.verdict
    starved = judge(look(rank(stacks=(WAITING,)), *workers(2, 0.98), on_gpu=True))
    assert starved.findings[0].confidence <= 0.5


def test_utilization_that_was_not_measured_is_unknown() -> None:
    assert "utilization_mean_share" not in measure(replace(look(rank(), on_gpu=True), gpu_series=gpu(np.nan)))


def test_of_several_ranks_the_one_that_waits_longest() -> None:
    other = replace(rank(0.95), pid=11)
    report = judge(look(other, rank(), *workers(2, 0.98)))
    assert only(report) == "input.workers_too_few"
    assert "Of 2 processes that train this is the one that waits longest." in report.summary.verdict


def test_a_main_thread_that_sleeps_beside_its_own_backward_pass_does_not_wait() -> None:
    assert measure(look(rank(0.2, whole=0.9))).number("live_main_waits_share") == pytest.approx(0.1)
    assert measure(look(rank(0.2, whole=4.0))).number("live_main_waits_share") == 0.0


@pytest.mark.parametrize("name", ["terminal", "json"])
def test_reports_are_shown(name: str) -> None:
    text = renderer(name).render(judge(look(rank(), *workers(2, 0.98))), Look())
    assert "input.workers_too_few" in text


def test_names_of_files_are_shown_clean() -> None:
    files = (OpenFile("/data/\x1b[31mred", "nfs4", 4_000_000, 90),)
    text = renderer("terminal").render(
        judge(look(rank(), *workers(4, 0.05, read=93, files=files))), Look(everything=True)
    )
    assert "\x1b" not in text


SHARE = st.floats(0, 1)


@given(SHARE, SHARE, SHARE, SHARE, SHARE, st.integers(0, 4), st.booleans(), SHARE, st.sampled_from(DOINGS))
def test_nothing_is_claimed_twice_or_beyond_the_look(
    cpu: float,
    delay: float,
    w_cpu: float,
    w_delay: float,
    held: float,
    count: int,
    on_gpu: bool,
    used: float,
    doing: str,
) -> None:
    seen = look(
        rank(cpu, min(delay, 1 - cpu), doing={doing: 50}),
        *workers(count, w_cpu, min(w_delay, 1 - w_cpu)),
        on_gpu=on_gpu, cpu_throttled_share=held, cpu_quota=2,
    )  # fmt: skip
    report = judge(replace(seen, gpu_series=gpu(used * 100)) if on_gpu else seen)
    assert len(report.findings) <= 1
    for finding in report.findings:
        assert 0 < (finding.lost_share or 0.0) <= (1 - used if on_gpu else 1) + 1e-9
        assert finding.confidence <= 0.75
        assert finding.rule not in finding.candidates
        assert finding.fixes


@given(SHARE, SHARE)
def test_a_job_that_sleeps_is_never_called_busy(cpu: float, whole: float) -> None:
    report = judge(look(rank(cpu, whole=max(cpu, whole))))
    assert not report.judged or report.findings or max(cpu, whole) > 0.5


def judged(*processes: LiveProcess, gpus: tuple[Series, ...]) -> Report:
    return judge(replace(look(*processes, on_gpu=True), gpu_series=gpus, gpu_facts=FACTS))


STEP = Stack((("train.py", 30, "main"),), 100, "other")


def test_a_job_that_holds_a_gpu_and_does_nothing() -> None:
    report = judged(rank(0.001), gpus=counters(0.0))
    assert only(report) == "curve.idle_held"
    assert report.exit_code == 1
    assert "holds its GPU and does nothing" in report.summary.verdict
    assert "50% of its memory in use" in report.findings[0].seen
    assert report.findings[0].confidence <= 0.6


def test_a_gpu_that_rests_while_the_job_is_at_work_is_not_left() -> None:
    assert only(judged(rank(0.9), gpus=counters(0.0))) == "host.python_overhead"
    assert only(judged(rank(0.0), *workers(2, 0.98), gpus=counters(0.0))) == "input.workers_too_few"
    assert only(judged(rank(0.0, doing={"read": 100}), gpus=counters(0.0))) == "input.storage"
    one_kernel = counters(0.0)
    one_kernel[0].value[7] = 60.0
    assert not judged(rank(0.0), gpus=one_kernel).findings


def test_what_slows_a_busy_gpu_down() -> None:
    assert only(judged(rank(0.2), gpus=counters(throttle_reasons=0x20, sm_clock_mhz=900.0))) == "hw.thermal"
    assert only(judged(rank(0.2), gpus=counters(throttle_reasons=4, sm_clock_mhz=600.0))) == "hw.power_cap"
    assert only(judged(rank(0.2), gpus=counters(processes_foreign=1, memory_foreign_bytes=9e9))) == "hw.gpu_shared"


def test_who_is_called_healthy() -> None:
    """A GPU that works, alone, at its clock, whose training thread was met outside of the loader."""
    process = rank(0.2, stacks=(STEP,))
    assert judged(process, gpus=counters()).healthy
    assert judged(process, gpus=counters(97.0)).exit_code == 0
    assert not judged(rank(0.2), gpus=counters()).healthy, "no stacks"
    assert not judged(process, gpus=gpu(97.0)).healthy, "clocks were not seen"
    assert not judged(process, gpus=counters(80.0)).healthy
    assert not judged(process, replace(process, pid=11), gpus=counters()).healthy, "ranks may wait for each other"
    assert not judged(rank(0.2, stacks=(WAITING,)), gpus=counters(92.0)).healthy
