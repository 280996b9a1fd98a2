"""Verdicts on curves: how much is known, and how little."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import BEGAN, GPU_OF_MACHINE, MS, Process, run_directory
from tests.sampled import WALL, S, curve, gpu, trainer
from whyidle import cost
from whyidle.curves import MOST_CONFIDENCE
from whyidle.diagnosis import diagnose
from whyidle.judge import judge
from whyidle.model.evidence import Fact, Run, Series
from whyidle.model.times import span
from whyidle.read import load
from whyidle.render import render
from whyidle.render.base import Look
from whyidle.render.json import Json

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "src" / "whyidle" / "demo" / "before.json.gz"
HEALTHY = ROOT / "tests" / "runs" / "healthy"
A100 = "NVIDIA A100-SXM4-80GB"
UNKNOWN = [np.nan] * 600


def steady(level=98.0, samples=600, seed=0):
    return np.clip(level + np.random.default_rng(seed).normal(0, 1, samples), 0, 100)


def sawtooth(period=75, zero=15, samples=1350):
    return np.where(np.arange(samples) % period < zero, 0.0, 99.0)


def judged(*curves, **more):
    return judge(Run(curves=curves, **more))


def test_a_sawtooth_is_told_with_how_it_is_known():
    report = judged(curve(*(gpu(sawtooth(), device=device) for device in range(8))))
    assert report.summary.verdict.startswith(
        "Your GPUs were idle 21% of the time (nvidia-smi dmon, 8 GPUs, 22.5 min, one sample per second)."
    )
    assert report.summary.gpu_idle_share == pytest.approx(1 - 0.99 * 0.8, abs=1e-3)
    assert report.summary.idle_by_cause == {"unknown": report.summary.gpu_idle_share}
    assert len(report.summary.devices) == 8
    assert report.exit_code == 1
    found = next(finding for finding in report.findings if finding.rule in {"curve.sawtooth", "curve.correlated_dips"})
    assert found.candidates
    assert found.shown in report.summary.verdict
    assert found.locations[0].file == "gpu.txt"
    assert report.prediction is not None
    assert report.prediction.refused == "a curve does not show what a fix would change"


def test_a_healthy_curve_is_one_line():
    report = judged(curve(gpu(steady())))
    assert report.healthy
    assert report.exit_code == 0
    assert report.summary.verdict == (
        "Healthy: the GPU was busy 98% of the time (nvidia-smi dmon, 1 GPU, 10 min, one sample per second)."
    )
    assert "GPU 0 " not in render(report)


def test_a_gpu_whose_utilization_is_not_recorded_is_unknown():
    split = gpu(UNKNOWN, instance="1g.10gb 7")
    held = gpu([2e9] * 600, name="memory_used_bytes", instance="1g.10gb 7")
    report = judged(curve(split, held))
    assert report.exit_code == 2
    assert report.summary.verdict.startswith(
        "Cannot judge: the utilization of GPU 0 MIG 1g.10gb 7 is not recorded (nvidia-smi dmon, which counts none"
    )
    assert "dcgmi dmon" in report.summary.verdict
    assert report.summary.gpu_idle_share is None
    assert report.summary.gpu_busy_share is None
    assert report.summary.idle_by_cause == {}


def test_one_gpu_that_is_unknown_beside_one_that_is_known():
    report = judged(curve(gpu(steady()), gpu(UNKNOWN, device=1)))
    assert report.exit_code == 0
    assert [device.device for device in report.summary.devices] == [0]
    assert any("GPU 1: utilization was not recorded" in warning for warning in report.warnings)


def test_samples_without_a_utilization_are_told():
    report = judged(curve(gpu(np.r_[steady(), UNKNOWN])))
    assert report.summary.verdict.endswith("Nothing is known of 50% of the time in which it was sampled.")
    assert not report.healthy


def test_what_a_reader_had_to_leave_out_is_told():
    report = judged(curve(gpu(steady()), warnings=("gpu.txt: cut short; what comes before is read.",)))
    assert "gpu.txt: cut short; what comes before is read." in report.warnings


def test_a_mean_of_several_gpus_counts_as_many():
    facts = (("name", A100), ("gpus", 8), ("mean_of_gpus", True))
    of_all = tuple(Fact(name, value, "instance type", "gpu 0") for name, value in facts)
    report = cost.price(judged(replace(curve(gpu(sawtooth())), facts=of_all)))
    assert "8 GPUs" in report.summary.verdict
    assert [(found.name, found.count) for found in report.run.gpus] == [(A100, 8)]
    assert report.summary.cost is not None
    assert report.summary.cost.gpus == 8
    assert "8 GPUs   " in render(report)


def test_parts_of_a_gpu_that_is_split_are_one_gpu():
    parts = (gpu(sawtooth() / 100, name="graphics_active_share", instance=f"1g.5gb {part}") for part in range(3))
    report = cost.price(judged(curve(*parts)), 2.0)
    assert report.summary.verdict.startswith("Your GPU was idle")
    assert "3 MIG instances of 1 GPU" in report.summary.verdict
    assert report.summary.cost is not None
    assert report.summary.cost.gpus == 1


def test_small_shapes_that_say_what_the_idle_time_may_be_are_a_judgement():
    values = np.where(np.arange(3600) % 80 < 3, 0.0, 97.0)
    report = judged(curve(gpu(values)))
    assert 0.05 < report.summary.gpu_idle_share < 0.08
    assert [found.severity for found in report.findings] == ["low"]
    assert report.judged
    assert report.exit_code == 0
    assert "no shape" not in report.summary.verdict


def test_the_next_measurement_is_told_once():
    shown = render(judged(curve(gpu(sawtooth()))))
    assert shown.count("whyidle run -- python train.py") == 1
    assert "…" not in shown[shown.index("may be") :].partition("\n\n")[0]


@pytest.mark.parametrize("samples", [1, 3])
def test_a_moment_is_no_curve(samples):
    report = judged(curve(gpu([0.0] * samples), gpu([20 * 2**30] * samples, name="memory_used_bytes")))
    assert report.exit_code == 2
    assert not report.healthy
    what = "one moment" if samples == 1 else "3 moments"
    assert (
        f"Cannot judge: {what}, not a curve (nvidia-smi dmon: 1 GPU at 0%, up to 20 GiB held)."
        in report.summary.verdict
    )
    assert "nvidia-smi dmon -o DT" in report.summary.verdict
    assert report.summary.gpu_idle_share is None


@pytest.mark.parametrize("samples", [5, 9])
def test_a_few_busy_samples_are_no_healthy_job(samples):
    report = judged(curve(gpu([100.0] * samples)))
    assert report.exit_code == 2
    assert not report.healthy
    assert report.summary.gpu_busy_share == 1
    assert f"{samples} samples are too few to judge a job by" in report.summary.verdict


@pytest.mark.parametrize("missing", [slice(0, 120), slice(200, 320), slice(480, 600), slice(0, 600, 4)])
def test_a_curve_that_lacks_a_fifth_is_not_healthy(missing):
    values = steady(99.5)
    values[missing] = np.nan
    report = judged(curve(gpu(values)))
    assert not report.healthy
    assert report.exit_code == 0
    assert report.summary.gpu_busy_share == pytest.approx(0.993, abs=0.002)
    assert report.summary.curve_known_share == pytest.approx(0.8, abs=0.06)
    assert report.summary.verdict.startswith("Your GPU was busy 99% of the time")
    assert "Nothing is known of" in report.summary.verdict


def test_what_is_hardly_known_is_not_judged():
    values = np.full(600, np.nan)
    values[:100] = 100.0
    assert judged(curve(gpu(values))).exit_code == 2


def test_one_gpu_of_many_that_does_nothing_is_named():
    gpus = (gpu(np.full(600, 0.0 if i == 17 else 100.0), device=i % 8, node=f"n{i // 8}") for i in range(64))
    report = judged(curve(*gpus))
    assert report.summary.gpu_idle_share == pytest.approx(1 / 64)
    assert not report.healthy
    assert "Not all of them: n2 GPU 1 0%." in report.summary.verdict


def test_curves_without_a_host_are_those_of_the_only_one_that_is_named():
    dmon = curve(*(gpu(steady(99.5, seed=i), device=i) for i in range(2)))
    stuck = (gpu([0.0] * 600, device=i, node="box", name="graphics_active_share") for i in range(2))
    both = judged(dmon, curve(*stuck, path="dcgm.txt", kind="dcgm-exporter", names=None))
    assert [(device.node, device.device) for device in both.summary.devices] == [("box", 0), ("box", 1)]
    assert both.findings == ()
    assert both.exit_code == 0
    assert "box GPU 0, box GPU 1: GR_ENGINE_ACTIVE stays at 0" in both.summary.verdict
    assert both.run.gpus[0].count == 2
    again = judged(dmon, curve(*(gpu(steady(99.5), device=i, node="box") for i in range(2)), path="query.csv"))
    assert len(again.summary.devices) == 2
    assert len([warning for warning in again.warnings if "both hold" in warning]) == 1


def test_an_engine_that_never_counts_is_not_idle_where_its_multiprocessors_work():
    engine, works = gpu([0.0] * 600, name="graphics_active_share"), gpu([0.6] * 600, name="sm_active_share")
    report = judged(curve(engine, works, kind="dcgmi dmon"))
    assert report.exit_code == 2
    assert report.summary.gpu_idle_share is None
    assert "GR_ENGINE_ACTIVE stays at 0 while other counters show that the GPU works" in report.summary.verdict
    assert "GR_ENGINE_ACTIVE" not in judged(curve(works)).summary.verdict  # which was not recorded
    rests = judged(curve(engine, gpu([0.0] * 600, name="sm_active_share")))
    assert rests.summary.gpu_idle_share == 1


def test_a_host_that_nobody_can_tell_stays_apart():
    other = curve(*(gpu(steady(), device=i) for i in range(8)))
    named = curve(gpu(steady(), node="box"), path="dcgm.txt")
    assert len(judged(other, named).summary.devices) == 9
    two = curve(gpu(steady(), node="box"), gpu(steady(), node="case"), path="dcgm.txt")
    assert len(judged(curve(gpu(steady())), two).summary.devices) == 3


def test_a_log_that_waits_for_nothing_and_dips_when_it_saves():
    log = trainer([0.5] * 7200, [0.0] * 7200)
    saves = Series("checkpoint", "", WALL + np.arange(600, 3600, 600) * S, np.ones(5))
    report = judged(curve(gpu(sawtooth(600, 60, 3600))), replace(log, series=(*log.series, saves)))
    assert "falls to zero about every 10 min" in report.summary.verdict
    assert report.summary.verdict.endswith(
        "The trainer's timer of waits for data says none: it does not cover checkpoints."
    )
    assert [finding.candidates[0] for finding in report.findings] == ["pause.checkpoint_sync"]
    assert "lost    10% of the curve, $" in render(cost.price(report))


def test_busy_moments_are_not_healthy():
    assert not judged(curve(gpu([100.0, 100.0]))).judged


def test_counters_of_the_host_alone_tell_nothing_of_a_gpu():
    host = replace(gpu([50.0] * 100, name="cpu_busy_percent"), device=None)
    report = judged(curve(host, kind="CloudWatch"))
    assert report.exit_code == 2
    assert report.summary.verdict.startswith(
        "Cannot judge: no GPU's utilization is recorded (CloudWatch: cpu_busy_percent)."
    )


def test_a_trainers_log_that_waits_for_data():
    report = judged(trainer([0.5] * 200, [0.2] * 200))
    assert report.summary.data_wait_share == pytest.approx(0.4)
    assert report.summary.verdict.startswith("Steps take 0.5 s (the trainer's log) and wait for data 40% of that;")
    assert [finding.rule for finding in report.findings] == ["curve.data_wait"]
    assert report.exit_code == 1
    assert report.summary.gpu_idle_share is None


def test_a_trainers_log_without_waits_says_nothing_of_the_gpu():
    report = judged(trainer([0.5] * 200))
    assert report.exit_code == 2
    assert "what the GPU does meanwhile was not recorded" in report.summary.verdict
    assert not judged(trainer([0.5] * 200, [0.001] * 200)).healthy


def test_a_curve_with_a_trainers_log():
    report = judged(curve(gpu(sawtooth())), trainer([0.5] * 2700, [0.0] * 2700))
    assert report.run.levels == ("trainer log", "curve")
    assert report.summary.steps == 2700
    assert not [rule for finding in report.findings for rule in finding.candidates if rule.startswith("input.")]


def test_counters_that_do_not_agree_are_in_the_verdict():
    told = curve(gpu(steady()), gpu([0.2] * 600, name="sm_active_share"), gpu([0.03] * 600, name="tensor_active_share"))
    report = judged(told)
    assert report.summary.verdict.startswith("Your GPU was busy 98% of the time")
    assert "Utilization of GPU 0 is 98%, but multiprocessors work in 20% of the cycles" in report.summary.verdict
    assert not report.healthy
    assert report.exit_code == 1


def test_nothing_is_surer_than_a_curve_can_be():
    throttled = gpu([0x40] * 600, name="throttle_reasons")
    clock = gpu([800] * 600, name="sm_clock_mhz")
    for values in (sawtooth(samples=600), steady(), steady(40)):
        report = judged(curve(gpu(values), throttled, clock))
        assert max([finding.confidence for finding in report.findings], default=0) <= MOST_CONFIDENCE


def test_idle_time_has_a_price():
    report = cost.price(judged(curve(*(gpu(sawtooth(), device=device) for device in range(8)))), hours=24)
    assert report.summary.cost is not None
    assert report.summary.cost.gpus == 8
    assert report.summary.cost.idle_usd_per_hour > 0
    assert report.run.gpus[0].name == "NVIDIA A100-SXM4-80GB"


def of_an_instance(gpus):
    """Return a curve as CloudWatch has it: one mean of all GPUs of an instance."""
    told = curve(gpu(steady(50), node="algo-1", every=60), kind="CloudWatch metrics")
    return replace(told, facts=(*told.facts, Fact("gpus", gpus, "instance type", "algo-1 gpu 0")))


def test_a_mean_of_eight_gpus_costs_eight():
    report = cost.price(judged(of_an_instance(8)), 2.0)
    assert report.summary.cost.gpus == 8
    assert report.summary.cost.idle_usd_per_hour == pytest.approx(8.0, rel=0.01)
    assert report.run.gpus[0].count == 8
    assert report.summary.verdict.startswith("Your GPUs were idle 50% of the time (CloudWatch metrics, 8 GPUs, 10 h")
    assert "  8 GPUs  " in render(report)


def test_parts_of_a_gpu_that_is_split_are_one_gpu_without_a_list_price():
    split = curve(*(gpu(steady(40), name="graphics_active_share", instance=f"1g.10gb {i}") for i in range(7)))
    split = replace(split, series=tuple(replace(one, value=one.value / 100) for one in split.series))
    report = judged(split)
    assert "7 MIG instances of 1 GPU" in report.summary.verdict
    assert cost.price(report).summary.cost is None
    assert "no list price for parts of a GPU (MIG)" in cost.price(report, hours=2).warnings[-1]
    priced = cost.price(report, 2.0)
    assert priced.summary.cost.gpus == 1
    assert priced.summary.cost.idle_usd_per_hour == pytest.approx(1.2, rel=0.01)


def test_the_report_names_the_file_and_the_format():
    text = Json().render(judged(curve(gpu(steady()))), Look())
    assert '"path": "gpu.txt",\n        "kind": "nvidia-smi dmon",\n        "rank": null' in text


def watched_without_steps(tmp_path, utilization, of_job=1):
    rows = [(BEGAN + ms * MS, 0, utilization, of_job) for ms in range(0, 600_000, 1000)]
    csv = {"gpu.csv": (("time_ns", "gpu", "utilization_percent", "processes_of_job"), rows)}
    return run_directory(tmp_path / "run", gpus=[GPU_OF_MACHINE], csv=csv)


def test_a_run_in_which_no_step_was_seen_is_judged_by_its_counters(tmp_path):
    report = diagnose(watched_without_steps(tmp_path, 98))
    assert report.exit_code == 0
    assert report.summary.verdict.startswith("Healthy: the GPU was busy 98% of the time (whyidle run, 1 GPU")
    assert "By counters alone: no process of the job used PyTorch" in report.summary.verdict
    assert report.run.gpus[0].name == GPU_OF_MACHINE["name"]


def test_a_run_without_steps_and_without_a_gpu_is_not_judged(tmp_path):
    report = diagnose(watched_without_steps(tmp_path, 0, of_job=0))
    assert report.exit_code == 2
    assert report.summary.verdict.startswith("Cannot judge: no process of the job used PyTorch")


def test_what_others_do_on_gpus_that_the_job_may_not_use_is_no_curve_of_it(tmp_path):
    rows = [(BEGAN + ms * MS, gpu, 98 * gpu, "") for ms in range(0, 600_000, 1000) for gpu in (0, 1)]
    csv = {"gpu.csv": (("time_ns", "gpu", "utilization_percent", "processes_of_job"), rows)}
    gpus = [{**GPU_OF_MACHINE, "index": index, "visible": not index} for index in (0, 1)]
    report = diagnose(run_directory(tmp_path / "run", gpus=gpus, csv=csv))
    assert report.exit_code == 2
    assert report.summary.gpu_idle_share is None


def test_a_log_beside_a_run_without_steps_does_not_hide_its_counters(tmp_path):
    run = load(watched_without_steps(tmp_path, 40))
    report = judge(replace(run, curves=(trainer([0.37] * 1000, [0.074] * 1000, start=run.nodes[0].wall),)))
    assert report.run.levels == ("trainer log", "curve")
    assert report.summary.gpu_idle_share == pytest.approx(0.6)
    assert report.summary.verdict.startswith("Your GPU was idle 60% of the time (whyidle run, 1 GPU")


def test_a_job_that_was_watched_and_a_curve_make_one_verdict(tmp_path):
    process = Process().setting("device", "cuda:0")
    process.train(400, data=40, idle=38)
    folder = run_directory(tmp_path / "run", process, gpus=[GPU_OF_MACHINE])
    run = load(folder)
    start = run.nodes[0].wall
    saw = curve(gpu(sawtooth(20, 8, 40), start=start, every=1.0))
    report = judge(replace(run, curves=(saw,)))
    assert report.run.levels == ("step log", "curve")
    assert report.summary.verdict.startswith("Each step waits for data 40% of the time")
    assert "nvidia-smi dmon: GPUs busy" in report.summary.verdict
    late = curve(gpu(sawtooth(20, 8, 40), start=start - 10**6 * S))
    apart = judge(replace(run, curves=(late,)))
    assert apart.run.levels == ("step log",)
    assert any("another time" in warning for warning in apart.warnings)
    assert apart.summary == judge(run).summary


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.floats(0, 100), st.just(np.nan)), max_size=80),
    st.integers(1, 3),
    st.sampled_from([0.2, 1.0, 60.0]),
)
def test_no_curve_makes_a_claim_that_it_does_not_hold(values, gpus, every):
    """Whatever it is: idle and busy make 1 or are unknown, and what is unknown is never healthy."""
    told = curve(*(gpu(values, device=device, every=every) for device in range(gpus)))
    report = judged(told)
    summary = report.summary
    if summary.gpu_idle_share is None:
        assert not report.judged
        assert summary.gpu_busy_share is None
    else:
        assert summary.gpu_busy_share is not None
        assert summary.gpu_busy_share + summary.gpu_idle_share == pytest.approx(1)
        assert sum(summary.idle_by_cause.values()) == pytest.approx(summary.gpu_idle_share)
    assert not report.healthy or (summary.gpu_idle_share or 0.0) < 0.03
    assert render(report, everything=True)
    assert render(report, width=60, unicode=False).isascii()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.02, "20 ms"), (0.3, "0.3 s"), (119, "119 s"), (1356, "22.6 min"), (28_800, "8 h"), (2_592_000, "30 days")],
)
def test_times_are_told_as_people_say_them(seconds, said):
    assert span(seconds) == said


def test_a_trace_settles_what_a_curve_suggests():
    run = load(DEMO)
    dips = curve(gpu(sawtooth(10, 4, 600)))
    report = judge(replace(run, curves=(dips,)))
    assert report.run.levels == ("trace", "curve")
    settled = next(finding for finding in report.findings if finding.rule == "input.workers_zero")
    assert "the curve agrees: utilization falls to zero" in settled.seen
    assert not [finding for finding in report.findings if finding.rule.startswith("curve.")]
    assert report.summary.gpu_idle_share == judge(run).summary.gpu_idle_share
    assert report.summary.curve_idle_share == pytest.approx(0.406, abs=0.01)


def test_a_run_that_idles_is_not_healthy_where_its_traced_steps_are():
    run = load(HEALTHY)
    assert judge(run).healthy
    report = judge(replace(run, curves=(curve(gpu(sawtooth(300, 90, 3600))),)))
    assert not report.healthy
    assert report.summary.verdict.startswith(
        "Your GPU was busy more than 99% of the traced steps, but not over the whole run."
    )
    assert "Over the whole run (nvidia-smi dmon) GPUs were idle 31% of the time" in report.summary.verdict
    left = next(finding for finding in report.findings if finding.rule.startswith("curve."))
    assert not [rule for rule in left.candidates if rule in {"input.workers_zero", "sync.scalar_read"}]
    assert "pause.checkpoint_sync" in left.candidates  # which traced steps need not hold


def test_idle_time_of_the_whole_run_is_what_costs():
    run = load(HEALTHY)
    report = cost.price(judge(replace(run, curves=(curve(gpu(sawtooth(300, 90, 3600))),))), 2.0)
    assert report.summary.cost.idle_usd_per_hour == pytest.approx(2 * 0.307, rel=0.01)
    busy = cost.price(judge(replace(load(DEMO), curves=(curve(gpu(steady(99.5))),))), 2.0)
    assert busy.summary.cost == cost.price(judge(load(DEMO)), 2.0).summary.cost


def test_a_gpu_that_idles_between_kernels_looks_busy_to_its_driver():
    report = judge(replace(load(DEMO), curves=(curve(gpu(steady(99.5))),)))
    assert "nvidia-smi dmon calls the GPU busy 99% of the time: it counts each sample" in report.summary.verdict


def test_a_curve_changes_nothing_of_what_a_trace_tells():
    alone, both = judge(load(DEMO)), judge(replace(load(DEMO), curves=(curve(gpu(steady())),)))
    assert [finding.rule for finding in both.findings] == [finding.rule for finding in alone.findings]
    assert both.summary.idle_by_cause == alone.summary.idle_by_cause
    assert both.prediction is not None
    assert alone.prediction is not None
    assert both.prediction.joint == alone.prediction.joint


def test_a_trace_without_a_gpu_is_told_beside_a_curve():
    run = load(DEMO)
    slices = run.traces[0].device_slices
    none = replace(slices, **{field.name: getattr(slices, field.name)[:0] for field in fields(slices)})
    report = judge(replace(run, traces=(replace(run.traces[0], device_slices=none),), curves=(curve(gpu(steady())),)))
    assert report.run.levels == ("curve",)
    assert any("no GPU operation recorded, left out" in warning for warning in report.warnings)


def test_a_trace_that_cannot_be_believed_does_not_hide_a_curve():
    run = load(DEMO)
    device = run.traces[0].device_slices
    wrong = replace(run, traces=(replace(run.traces[0], device_slices=replace(device, end=device.start)),))
    assert judge(wrong).exit_code == 2
    report = judge(replace(wrong, curves=(curve(gpu(steady())),)))
    assert report.summary.verdict.startswith("Healthy: the GPU was busy 98% of the time (nvidia-smi dmon")
    assert report.run.levels == ("curve",)
    assert report.warnings


def test_what_a_reader_says_of_a_file_is_in_the_report():
    said = "gpu.txt: 3 cells of utilization_percent are no numbers."
    told = judged(curve(gpu(steady()), warnings=(said,)))
    assert said in told.warnings


def test_what_is_said_of_many_files_alike_is_said_once():
    files = [
        curve(gpu([50] * 9, start=WALL + 10 * S * place), path=f"{place}.txt", warnings=(f"{place}.txt: cut short.",))
        for place in range(40)
    ]
    assert "0.txt and 39 more files: cut short." in judged(*files).warnings
