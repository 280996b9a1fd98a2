"""Verdicts on jobs that were watched: what is said of the host's waits, and when nothing can be said."""

from __future__ import annotations

import json

import pytest

from tests.recorded import BEGAN, GPU_OF_MACHINE, MS, Process, run_directory
from whyidle import watched
from whyidle.diagnosis import diagnose
from whyidle.model.finding import Finding, Summary
from whyidle.render import render

BLOCKS = "that is where the host happens to block, not a cause"


def job(tmp_path, *, device="cuda:0", epochs=3, utilization=None, **train):
    process = Process().setting("device", device)
    for _ in range(epochs):
        process.train(20, **train)
    gpus = [] if device == "cpu" else [GPU_OF_MACHINE]
    csv = {}
    if utilization is not None:
        rows = [(BEGAN + round(ms * MS), 0, utilization, 1) for ms in range(0, round(process.now), 100)]
        csv["gpu.csv"] = (("time_ns", "gpu", "utilization_percent", "processes_of_job"), rows)
    return run_directory(tmp_path / "run", process, gpus=gpus, csv=csv)


def test_a_job_without_a_gpu(tmp_path):
    report = diagnose(job(tmp_path, device="cpu", data=40))
    assert report.summary.verdict.startswith("No GPU was used: 40% of each step waits for data.")
    assert report.summary.gpu_idle_share is None
    assert report.summary.lost_shares["data_zero"] == pytest.approx(0.4)
    assert sum(report.summary.host_shares.values()) == pytest.approx(1)
    assert not report.healthy


def test_small_losses_that_findings_speak_for_are_judged(tmp_path):
    process = Process().setting("device", "cpu")
    for _ in range(10):
        process.train(10, data=0)
        process.save(24)
    report = diagnose(run_directory(tmp_path, process))
    assert {finding.rule for finding in report.findings} == {"pause.checkpoint_sync"}
    assert report.judged
    assert report.exit_code == 0
    assert "4% of the time goes into writing checkpoints" in report.summary.verdict


def test_a_healthy_job_without_a_gpu(tmp_path):
    report = diagnose(job(tmp_path, device="cpu", data=1))
    assert report.summary.verdict == (
        "Healthy: no GPU was used; waits for data, checkpoints and metrics take 2% of the time."
    )
    assert report.healthy
    assert report.exit_code == 0
    assert "step  " not in render(report)  # the picture is for those who have something to look for


def test_a_gpu_that_waits_with_its_host(tmp_path):
    report = diagnose(job(tmp_path, data=40, idle=38))
    assert report.summary.verdict.startswith(
        "Each step waits for data 40% of the time, and the GPU idles in 38 of these 40 points."
    )


def test_a_host_that_blocks_while_the_gpu_works(tmp_path):
    report = diagnose(job(tmp_path, data=40, idle=0, utilization=99))
    assert "The host waits for it 40% of the time" in report.summary.verdict
    assert BLOCKS in report.summary.verdict
    assert report.healthy  # the GPU works all the time
    assert report.run.gpus[0].name == GPU_OF_MACHINE["name"]


def test_waits_of_the_host_alone_are_an_upper_bound(tmp_path):
    report = diagnose(job(tmp_path, data=40))
    assert "40% of the time at most" in report.summary.verdict
    assert set(report.summary.lost_shares) == {"data_other", "save", "evaluation"}
    assert not report.judged
    assert "GPU idle meanwhile  waiting for data not measured" in render(report)


def test_a_gpu_that_rests_for_no_known_reason_is_not_judged(tmp_path):
    report = diagnose(job(tmp_path, data=1, idle=1, utilization=40))
    assert "NVML saw kernels 40% of the time" in report.summary.verdict
    assert not report.judged
    assert not report.healthy
    assert report.exit_code == 2


def test_a_gpu_that_is_used_is_healthy(tmp_path):
    report = diagnose(job(tmp_path, data=1, idle=0, utilization=97))
    assert report.summary.verdict.startswith("Healthy: the GPU waits for data and checkpoints less than 1%")
    assert report.healthy


def test_a_job_of_which_nothing_tells_where_it_computes(tmp_path):
    process = Process().train(20)
    report = diagnose(run_directory(tmp_path, process, gpus=[GPU_OF_MACHINE]))
    assert "whether a GPU works meanwhile was not recorded" in report.summary.verdict
    assert not report.healthy


def test_a_job_that_never_trains(tmp_path):
    ended = {"mono_ns": BEGAN, "exit_code": 3, "signal": None}
    report = diagnose(run_directory(tmp_path, Process(), told={"ended": ended}))
    assert report.summary.verdict == (
        "Cannot judge: 1 process used PyTorch, but none trained: no batch, no backward pass and no step of an "
        "optimizer was seen. The job ended with exit code 3. Run the command that trains."
    )
    assert report.exit_code == 2


def test_a_job_without_pytorch(tmp_path):
    report = diagnose(run_directory(tmp_path))
    assert report.summary.verdict.startswith("Cannot judge: no process of the job used PyTorch")


def test_a_job_of_two_steps(tmp_path):
    report = diagnose(run_directory(tmp_path, Process().train(2)))
    assert "fewer than 3 steps were seen" in report.summary.verdict


def test_processes_that_could_not_be_watched(tmp_path):
    missed = [{"pid": 7, "command": ["python", "-I", "x.py"], "why": "started with -I", "hint": "Start it without"}]
    report = diagnose(run_directory(tmp_path, told={"not_captured": missed}))
    assert report.summary.verdict == (
        "Cannot judge: process 7 (python -I x.py) was not watched: started with -I. Start it without."
    )


def test_a_killed_job_says_so(tmp_path):
    ended = {"mono_ns": BEGAN, "exit_code": None, "signal": 9}
    report = diagnose(run_directory(tmp_path, told={"ended": ended}))
    assert "ended by signal 9" in report.summary.verdict
    assert "still runs" in diagnose(run_directory(tmp_path, told={"ended": None})).summary.verdict


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"mono_ns": BEGAN, "exit_code": 3, "signal": None}, "The job ended with exit code 3."),
        ({"mono_ns": BEGAN, "exit_code": None, "signal": 9}, "The job was ended by signal 9 (SIGKILL)."),
        ({"mono_ns": BEGAN, "exit_code": None, "signal": 99}, "The job was ended by signal 99."),
        (None, "The job still runs, or its recording was cut off: judged as of 19 steps."),
        ({"mono_ns": BEGAN, "exit_code": 0, "signal": None}, ""),
    ],
)
def test_how_a_job_that_was_judged_ended(tmp_path, ended, said):
    process = Process().setting("device", "cpu").train(20, data=40)
    report = diagnose(run_directory(tmp_path, process, told={"ended": ended}))
    assert report.judged
    assert report.summary.verdict.endswith(said or "40% of each step waits for data.")
    assert said in " ".join(render(report).split())
    told = json.loads(render(report, "json"))["run"]["ended"]
    assert told == {"exit_code": ended and ended["exit_code"], "signal": ended and ended["signal"]}


def test_steps_of_several_batches_are_said_to_be(tmp_path):
    process = Process().setting("device", "cpu")
    for _ in range(21):
        for _ in range(4):
            process.batch(10)
            process.forward(10)
            process.backward(10)
        process.step(10)
    report = diagnose(run_directory(tmp_path, process))
    assert "20 optimizer steps of 80 batches" in render(report)


def test_a_finding_that_is_less_than_the_wait_says_why(tmp_path):
    process = Process().setting("device", "cpu").train(30, data=400)
    machine = {"cpus": 2, "cpus_allowed": [0, 1]}
    report = diagnose(run_directory(tmp_path, process, told={"machine": machine}))
    assert report.summary.verdict == "No GPU was used: 87% of each step waits for data."
    finding = next(finding for finding in report.findings if finding.rule == "input.workers_zero")
    assert finding.message.endswith("of the time, as workers can take that much of a wait of 87%.")


def test_a_watched_job_is_not_told_to_be_watched(tmp_path):
    report = diagnose(job(tmp_path / "cpu", device="cpu", data=40))
    assert report.unknown == ()
    assert "not judged" not in render(report, everything=True)
    report = diagnose(job(tmp_path / "gpu", data=40, idle=38))
    assert report.unknown
    assert not [one.how for one in report.unknown if "run the job under" in one.how]
    process = Process().setting("device", "cuda:0").train(60, data=40, idle=38)
    report = diagnose(run_directory(tmp_path / "none", process, told={"nvml": "no NVIDIA driver"}))
    hows = {one.rule: one.how for one in report.unknown}
    assert hows["hw.power_cap"] == "make NVML answer on the job's machine (no NVIDIA driver)"


def trace(steps=6, step=70, busy=60):
    """Return a Kineto trace of steps with one kernel each, launched by an operator; ms."""
    events = []
    for number in range(steps):
        begin = (number + 1) * step * 1000
        events.append(slice_("user_annotation", f"ProfilerStep#{number}", begin, step * 1000))
        for half in range(2):
            start = begin + half * 500 * busy
            correlation = number * 2 + half + 1
            launch = {"correlation": correlation}
            events.append(slice_("cuda_runtime", "cudaLaunchKernel", start - 50, 5, **launch))
            events.append(slice_("kernel", "gemm", start, 500 * busy, pid=0, stream=7, device=0, **launch))
    return {"distributedInfo": {"rank": 0}, "traceEvents": events}


def slice_(category, name, start, took, pid=1, **args):
    tid = 7 if category == "kernel" else 1
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": took, "args": args}


def with_trace(run, content):
    (next(run.glob("node-*")) / "trace-rank0-4000-1.json").write_text(json.dumps(content))
    return run


def test_trace_and_log_together(tmp_path):
    report = diagnose(with_trace(job(tmp_path, data=10, idle=0), trace()))
    summary = report.summary
    assert summary.gpu_busy_share == pytest.approx(60 / 70, abs=0.01)  # of the trace
    assert summary.steps == 59  # of the log
    assert summary.step_time_s == pytest.approx(0.07)
    assert summary.data_wait_share == pytest.approx(1 / 7)
    assert BLOCKS in summary.verdict
    assert [file.kind for file in report.run.evidence] == ["kineto", "whyidle run"]
    assert not [warning for warning in report.warnings if "typical" in warning]


def test_a_gpu_that_is_busy_in_traced_steps_and_rests_in_others(tmp_path):
    process = Process().setting("device", "cuda:0")
    for _ in range(10):
        process.train(5, data=1, idle=0, backward=40, other=3).wait(300)  # an upload every five steps
    rows = [(BEGAN + round(ms * MS), 0, 50, 1) for ms in range(0, round(process.now), 100)]
    csv = {"gpu.csv": (("time_ns", "gpu", "utilization_percent", "processes_of_job"), rows)}
    report = diagnose(with_trace(run_directory(tmp_path, process, gpus=[GPU_OF_MACHINE], csv=csv), trace(busy=69)))
    assert report.summary.verdict.startswith(
        "Your GPU was busy 99% of the traced steps, but not over the whole run. NVML saw no kernel 50% of the time, "
        "and the loop's own code between Optimizer.step and the next batch takes 4"
    )
    assert not report.healthy
    assert report.exit_code == 2


def test_traced_steps_that_are_not_typical(tmp_path):
    report = diagnose(with_trace(job(tmp_path, data=40, idle=40), trace()))
    assert any("the traced steps take 70 ms, the median step of the run 100 ms" in text for text in report.warnings)
    assert "Over the whole run the GPU waits for data 40% of the time; the traced steps show 0%." in (
        report.summary.verdict
    )
    assert not report.healthy


def test_a_trace_without_gpu_work_leaves_the_log(tmp_path):
    content = {"traceEvents": [slice_("cpu_op", "aten::mm", 0, 10)]}
    report = diagnose(with_trace(job(tmp_path, device="cpu", data=1), content))
    assert report.summary.verdict.startswith("Healthy: no GPU was used")


def test_several_ranks(tmp_path):
    processes = [Process(rank, 4000 + rank, 2).train(20, data=40).setting("device", "cpu") for rank in range(2)]
    report = diagnose(run_directory(tmp_path, *processes))
    assert [file.rank for file in report.run.evidence] == [0, 1]
    assert report.run.world_size == 2
    assert "waits longest" not in report.summary.verdict


def test_a_rank_that_waits_for_data_holds_up_the_others(tmp_path):
    first = Process(0, 10, 2).setting("device", "cpu").train(20, data=1, backward=69)
    second = Process(1, 11, 2).setting("device", "cpu").train(20, data=40, backward=30)
    verdict = diagnose(run_directory(tmp_path, first, second)).summary.verdict
    assert verdict == (
        "No GPU was used: 40% of each step waits for data. Rank 1, shown here, waits longest, 40% of the time, "
        "ranks on average 20%: where ranks meet, the others wait for it."
    )


def test_a_rank_that_writes_checkpoints_holds_up_the_others(tmp_path):
    first = Process(0, 10, 2).setting("device", "cpu")
    for _ in range(20):
        first.train(1, data=0).save(40)
    second = Process(1, 11, 2).setting("device", "cpu").train(20, data=0, backward=70)
    report = diagnose(run_directory(tmp_path, first, second))
    assert report.summary.lost_shares["save"] == pytest.approx(0.4)
    assert sum(report.summary.host_shares.values()) == pytest.approx(1)
    assert "Rank 0, shown here, waits longest, 40% of the time, ranks on average 20%" in report.summary.verdict


def test_a_gpu_whose_batches_come_from_no_dataloader(tmp_path):
    process = Process().setting("device", "cuda:0")
    for _ in range(30):
        process.wait(40)
        process.forward(20)
        process.backward(30)
        process.step(5)
    rows = [(BEGAN + round(ms * MS), 0, 50, 1) for ms in range(0, round(process.now), 100)]
    csv = {"gpu.csv": (("time_ns", "gpu", "utilization_percent", "processes_of_job"), rows)}
    report = diagnose(run_directory(tmp_path, process, gpus=[GPU_OF_MACHINE], csv=csv))
    assert report.summary.verdict.startswith(
        "NVML saw no kernel 50% of the time, and the loop's own code between Optimizer.step and the forward pass, "
        "where its batches may be made, takes 42% of the time. Whether the GPU waits for data was not measured: the "
        "training thread takes its batches from no DataLoader of PyTorch."
    )
    (found,) = report.findings
    assert (found.rule, found.confidence) == ("host.python_overhead", 0.5)
    assert "input.no_overlap" in found.candidates


def test_an_upload_after_each_step_is_not_healthy(tmp_path):
    report = diagnose(job(tmp_path, device="cpu", data=1, other=600))
    assert report.summary.verdict == (
        "No GPU was used: 91% of the time goes into the loop's own code between Optimizer.step and the next batch."
    )
    assert not report.healthy
    assert report.exit_code == 1
    (found,) = report.findings
    assert found.rule == "host.python_overhead"
    assert "pool.submit" in found.fixes[0].change
    assert "step  " in render(report)


def test_code_all_over_the_loop_is_neither_healthy_nor_judged(tmp_path):
    process = Process().setting("device", "cpu")
    for _ in range(20):
        process.batch(1)
        process.wait(8)
        process.forward(30)
        process.wait(9)
        process.backward(50)
        process.wait(8)
        process.step(5)
        process.wait(7)
    report = diagnose(run_directory(tmp_path, process))
    assert report.summary.verdict == ("No GPU was used: 27% of the time goes into code of which nothing was recorded.")
    assert not report.healthy
    assert report.exit_code == 2
    assert "step  " in render(report)


def test_what_nvml_saw_bounds_a_wait_that_was_not_timed(tmp_path):
    report = diagnose(job(tmp_path, data=40, utilization=99))
    assert report.summary.verdict.startswith(
        "The host waits for data 40% of the time, the GPU 1% at most, as NVML saw kernels in the rest of the time."
    )
    assert report.judged


def test_nvml_does_not_tell_ranks_that_wait_for_each_other_from_ranks_that_work(tmp_path):
    processes = [
        Process(rank, 10 + rank, 2).setting("device", f"cuda:{rank}").train(40, data=1, idle=0) for rank in range(2)
    ]
    rows = [(BEGAN + ms * MS, gpu, 99, 1) for ms in range(0, round(processes[0].now), 100) for gpu in range(2)]
    csv = {"gpu.csv": (("time_ns", "gpu", "utilization_percent", "processes_of_job"), rows)}
    gpus = [GPU_OF_MACHINE, GPU_OF_MACHINE | {"index": 1}]
    report = diagnose(run_directory(tmp_path, *processes, gpus=gpus, csv=csv))
    assert "Healthy" not in report.summary.verdict
    assert "How long ranks wait for each other is not known" in report.summary.verdict
    assert report.judged
    assert not report.healthy


def test_waits_that_no_finding_speaks_for_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(watched, "all_rules", tuple)
    summary = Summary("", on_gpu=False, lost_shares={"data_zero": 0.04, "save": 0.03, "evaluation": 0.0})
    assert watched.verdict(summary, ()).endswith(
        "No finding says what to change about 7% of the time (data 4%, checkpoints 3%): not judged."
    )
    assert not watched.enough(summary, ())


def test_a_finding_on_something_else_does_not_speak_for_a_wait():
    summary = Summary("", on_gpu=False, lost_shares={"save": 0.06})
    other = Finding("host.gc_pause", "low", 0.9, "", 0.04, "")
    its = Finding("pause.checkpoint_sync", "low", 0.9, "", 0.04, "")
    assert not watched.enough(summary, (other,))
    assert watched.enough(summary, (its,))


def test_a_healthy_trace_does_not_make_a_run_healthy_that_waits(tmp_path):
    report = diagnose(with_trace(job(tmp_path, data=40, idle=40), trace(busy=70)))
    assert report.summary.verdict.startswith(
        "Your GPU was busy 100% of the traced steps, but over the whole run it waits 40% of the time."
    )


def test_what_to_type_without_a_gpu_pins_no_memory(tmp_path):
    process = Process().setting("device", "cpu").train(30, data=40)
    process.evaluate(40, data=20)
    process.train(10, data=40)
    report = diagnose(run_directory(tmp_path, process))
    assert {finding.rule for finding in report.findings} >= {"input.workers_zero", "pause.evaluation"}
    assert not [fix for finding in report.findings for fix in finding.fixes if "pin_memory" in fix.change]


def test_a_long_start_is_a_share_of_the_run(tmp_path):
    process = Process().setting("device", "cpu").wait(237_000).train(2000, data=0)  # 120 s after four minutes
    report = diagnose(run_directory(tmp_path, process))
    assert [finding.rule for finding in report.findings] == ["pause.startup"]
    assert "67% of the run, 240 s of 360 s" in render(report)


HUGE = 10**400


def of_gpu(values):
    columns = (
        "time_ns", "gpu", "utilization_percent", "processes_of_job", "throttle_reasons", "sm_clock_mhz",
        "temperature_c", "memory_foreign_bytes", "processes_foreign",
    )  # fmt: skip
    return {"gpu.csv": (columns, [(BEGAN + ms * MS, 0, *values) for ms in range(0, 4000, 100)])}


@pytest.mark.parametrize(
    "machine",
    [
        *({"csv": of_gpu([text] * 7)} for text in ("nan", "inf", "1e300", "-5", "x")),
        {"csv": of_gpu(["99", "nan", "1e19", "1e400", "-1e300", "nan", "3"])},
        {"gpus": [GPU_OF_MACHINE | {"pcie_width": HUGE, "pcie_width_max": 0, "sm_clock_max_mhz": 1e-320}]},
        {"told": {"clock": {"mono_ns": HUGE, "wall_ns": -5}}},
        {"told": {"clock": {"mono_ns": (1 << 63) - 1, "wall_ns": 1 << 63}}},
        {"told": {"machine": {"cpus": HUGE, "cpu_quota": 1e-300, "cpus_allowed": "0-99999999999"}}},
        {"told": {"machine": {"cpus": 0, "cpus_allowed": [], "cpu_quota": -3}}},
        {"told": {"not_captured": [{"pid": HUGE, "command": ["a"], "why": "x"}]}},
        {
            "csv": {
                "processes.csv": (
                    ("time_ns", "pid", "role", "cpu_s"),
                    [(BEGAN + ms * MS, 4000, "rank", "1e308" if ms % 200 else "-1e308") for ms in range(0, 4000, 100)],
                )
            }
        },
    ],
)
@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"loaders": [{"loader": 0, "where": "x:" + "9" * 5000, "num_workers": -3, "length": HUGE}]},
        {
            "settings": [
                {"name": "CUDA_VISIBLE_DEVICES", "value": "9" * 5000},
                {"name": "affinity", "value": "9" * 5000},
            ]
        },
        {"settings": [{"name": "torch_threads", "value": HUGE}, {"name": "cpus_allowed", "value": -1}]},
        {"syncs": {"steps": HUGE, "sites": [{"file": "e", "line": 1, "count": HUGE}]}},
        {"profile": {"state": "done", "export_ms": 1e300, "trace": "../../etc/passwd"}},
        {"dynamo": {"breaks": {"x": HUGE}, "recompilations": {"y": -1}}},
    ],
)
def test_numbers_that_cannot_be_do_no_harm(tmp_path, machine, facts):
    process = Process().setting("device", "cuda:0").train(50, data=40, idle=40, workers=True)
    process.facts.update(facts)
    process.workers[0, 0] = {"fetches": HUGE, "fetch_s": {"sum": 1e308, "sum_of_squares": 1e308}, "cpu_s": 1e308}
    report = diagnose(run_directory(tmp_path, process, **{"gpus": [GPU_OF_MACHINE], **machine}))
    assert "40% of the time" in report.summary.verdict
    assert render(report)
