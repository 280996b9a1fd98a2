"""Curves beside stronger evidence: what is settled, what stays, and what does not agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sampled import WALL, S, curve, gpu
from whyidle import fusion
from whyidle.measure import Measured, measure
from whyidle.measure.curve import Curves
from whyidle.model.evidence import Fact, Node, Run, Series
from whyidle.model.finding import Finding, Summary
from whyidle.model.measurement import Measurement, Measurements

SAWTOOTH = Finding(
    "curve.sawtooth", "medium", 0.5, "All GPUs fall to zero every 33 s.", 0.16, "32 of 40 periods",
    candidates=("input.workers_zero", "pause.checkpoint_sync", "pause.evaluation"),
)  # fmt: skip
WORKERS = Finding("input.workers_zero", "high", 0.9, "The DataLoader loads in the training process.", 0.2, "loader")
HOUR = 3600 * S


def nothing(*measurements, curves=()) -> Measured:
    """Return what was measured of a run that holds no more than this."""
    told = Curves(measurements=tuple(measurements), curves=curves)
    return replace(measure(Run()), measurements=Measurements(measurements), curves=told)


def node(**more) -> Node:
    return Node("node-box", "run/node-box", "box", (), started=50 * S, wall=WALL, ended=50 * S + HOUR, **more)


def test_a_cause_that_was_found_settles_what_a_curve_shows():
    found = fusion.settled([SAWTOOTH, WORKERS], nothing())
    assert [finding.rule for finding in found] == ["input.workers_zero"]
    assert found[0].seen == "loader; the curve agrees: all GPUs fall to zero every 33 s"


def test_a_cause_that_explains_little_of_it_settles_nothing():
    found = fusion.settled([SAWTOOTH, replace(WORKERS, lost_share=0.03)], nothing())
    assert {finding.rule for finding in found} == {"curve.sawtooth", "input.workers_zero"}


def test_a_cause_that_could_not_look_so_settles_nothing():
    found = fusion.settled([SAWTOOTH, replace(WORKERS, rule="sync.scalar_read")], nothing())
    assert {finding.rule for finding in found} == {"curve.sawtooth", "sync.scalar_read"}


def test_waits_of_every_step_are_no_dips_that_many_steps_lie_between():
    waits = Finding("curve.data_wait", "high", 0.6, "Steps wait.", 0.2, candidates=("input.workers_zero",))
    told = [Measurement("curve_data_wait_share", 0.2), Measurement("curve_step_time_s", 0.5)]
    assert len(fusion.settled([SAWTOOTH, waits], nothing(*told, Measurement("curve_dip_interval_s", 30.0)))) == 2
    assert len(fusion.settled([SAWTOOTH, waits], nothing(*told, Measurement("curve_dip_interval_s", 5.0)))) == 1


def test_a_cause_settles_no_more_than_it_explains():
    flat = Finding("curve.flat_low", "high", 0.5, "Low.", 0.3, candidates=("input.workers_zero",))
    found = fusion.settled([replace(SAWTOOTH, lost_share=0.3), flat, replace(WORKERS, lost_share=0.2)], nothing())
    assert {finding.rule for finding in found} == {"curve.sawtooth", "input.workers_zero"}


def test_what_every_step_waits_for_is_no_pause_of_a_whole_run():
    apart = [Measurement("curve_dip_interval_s", 600.0), Measurement("step_time_s", 0.2)]
    found = fusion.settled([SAWTOOTH, WORKERS], nothing(*apart))
    assert {finding.rule for finding in found} == {"curve.sawtooth", "input.workers_zero"}
    slow = [Measurement("curve_dip_interval_s", 600.0), Measurement("step_time_s", 60.0)]
    assert len(fusion.settled([SAWTOOTH, WORKERS], nothing(*slow))) == 1


@pytest.mark.parametrize("shape", ["curve.startup", "curve.idle_held"])
def test_what_every_step_waits_for_is_no_start_and_no_end(shape):
    once = Finding(shape, "high", 0.5, "Nothing.", 0.2, candidates=("pause.startup", "input.storage"))
    storage = replace(WORKERS, rule="input.storage")
    assert len(fusion.settled([once, storage], nothing())) == 2
    assert len(fusion.settled([once, replace(storage, rule="pause.startup")], nothing())) == 1


def test_dips_when_the_log_says_that_it_saves_are_no_evaluation():
    saves = Measurement("curve_dip_event", "checkpoint")
    evaluation = replace(WORKERS, rule="pause.evaluation")
    assert len(fusion.settled([SAWTOOTH, evaluation], nothing(saves))) == 2
    assert len(fusion.settled([SAWTOOTH, replace(WORKERS, rule="pause.checkpoint_sync")], nothing(saves))) == 1


def test_nvml_and_a_curve_that_do_not_agree():
    told = nothing(curves=(curve(gpu([50.0] * 10)),))
    summary = Summary("", on_gpu=True, curve_idle_share=0.5, utilization_mean_share=0.98)
    said = " ".join(fusion.remarks(told, summary))
    assert said == (
        "nvidia-smi dmon: GPUs busy 50% of the time. NVML on the job's machine says 98% of its GPUs in the same time: "
        "the curve may be of another machine or of other GPUs."
    )
    assert len(list(fusion.remarks(told, replace(summary, utilization_mean_share=0.52)))) == 1


def test_waits_that_a_curve_calls_busy():
    told = nothing(curves=(curve(gpu([98.0] * 10)),))
    summary = Summary("", on_gpu=True, curve_idle_share=0.02, lost_shares={"data_zero": 0.38})
    assert next(fusion.remarks(told, summary)) == "nvidia-smi dmon: GPUs busy 98% of the time."
    assert "the recording shows the GPU wait 38% of the time" in list(fusion.remarks(told, summary))[1]
    assert len(list(fusion.remarks(told, replace(summary, curve_idle_share=0.35)))) == 1


def test_what_a_trainers_log_rules_out_is_no_candidate():
    found = fusion.settled([SAWTOOTH], nothing(Measurement("curve_data_wait_share", 0.0)))
    assert found[0].candidates == ("pause.checkpoint_sync", "pause.evaluation")


def test_what_nobody_measured_stays_a_candidate():
    assert fusion.settled([SAWTOOTH], nothing()) == [SAWTOOTH]


def test_waits_in_a_trainers_log_settle_the_shape():
    waits = Finding(
        "curve.data_wait", "medium", 0.6, "Steps wait for data.", 0.15, "log", candidates=("input.workers_zero",)
    )
    found = fusion.settled([SAWTOOTH, waits], nothing(Measurement("curve_data_wait_share", 0.15)))
    assert [finding.rule for finding in found] == ["curve.data_wait"]
    assert "the curve agrees" in found[0].seen


@given(st.permutations([SAWTOOTH, WORKERS, replace(SAWTOOTH, rule="curve.startup", candidates=("pause.startup",))]))
def test_settling_does_not_depend_on_the_order(findings):
    once = fusion.settled(findings, nothing())
    assert {finding.rule for finding in once} == {"input.workers_zero", "curve.startup"}
    again = fusion.settled(once, nothing())
    assert again == once


@pytest.mark.parametrize(("start", "samples"), [(WALL - HOUR, 1800), (WALL + 2 * HOUR, 100)])
def test_a_curve_of_another_time_is_not_judged_with_the_job(start, samples):
    run = fusion.of_the_job(Run(nodes=(node(),), curves=(curve(gpu([50.0] * samples, start=start)),)))
    assert run.curves == ()
    assert "another time" in run.warnings[0]
    assert run.ignored[0].path == "gpu.txt"


def test_a_curve_that_is_longer_than_the_job_is_cut():
    given_ = curve(gpu([50.0] * 7200, start=WALL - HOUR // 2))
    run = fusion.of_the_job(Run(nodes=(node(),), curves=(given_,)))
    time = run.curves[0].series[0].time
    assert time[0] == WALL
    assert time[-1] == WALL + HOUR
    assert "of the time of the job" in run.warnings[0]


def test_a_curve_of_the_jobs_time_stays_as_it_is():
    run = Run(nodes=(node(),), curves=(curve(gpu([50.0] * 60)), curve(gpu([1.0], start=0), clock="relative")))
    assert fusion.of_the_job(run) == run


def test_counters_of_a_run_directory_are_a_curve_of_the_jobs_gpus():
    time = 50 * S + np.arange(10) * S
    columns = [("utilization_percent", 0, 80.0), ("processes_of_job", 0, 1.0), ("utilization_percent", 1, 30.0)]
    series = tuple(Series(name, "node-box", time, np.full(10, value), device) for name, device, value in columns)
    facts = (Fact("name", "NVIDIA L4", "NVML", "gpu 0"), Fact("cpus", 8))
    told = fusion.of_nodes(Run(nodes=(node(facts=facts),), series=series))
    assert {one.device for one in told[0].series} == {0}  # GPU 1 runs something else
    assert int(told[0].series[0].time[0]) == WALL
    assert [fact.value for fact in told[0].facts] == ["NVIDIA L4"]


def test_counters_without_a_gpu_of_the_job_are_none():
    time = 50 * S + np.arange(10) * S
    series = (Series("utilization_percent", "node-box", time, np.zeros(10), 0),)
    assert fusion.of_nodes(Run(nodes=(node(),), series=series)) == ()


def test_a_curve_and_a_trace_that_do_not_agree():
    with_curve = nothing(curves=(curve(gpu([100.0] * 10)),))
    said = list(fusion.remarks(with_curve, Summary("", gpu_idle_share=0.6, curve_idle_share=0.0)))
    assert "counts each sample in which any kernel ran" in said[0]
    said = list(fusion.remarks(with_curve, Summary("", gpu_idle_share=0.02, curve_idle_share=0.4)))
    assert "Over the whole run (nvidia-smi dmon) GPUs were idle 40% of the time; the traced steps show 2%." in said
    assert list(fusion.remarks(with_curve, Summary("", gpu_idle_share=0.4, curve_idle_share=0.42))) == []
    assert fusion.rests(Summary("", gpu_idle_share=0.02, curve_idle_share=0.4))
    assert not fusion.rests(Summary("", gpu_idle_share=0.02, curve_idle_share=None))


def test_a_curve_of_a_host_is_cut_to_the_gpus_of_the_job():
    time = 50 * S + np.arange(10) * S
    series = tuple(
        Series("processes_of_job", "node-box", time, np.full(10, used), device) for device, used in ((0, 0.0), (1, 2.0))
    )
    given_ = curve(*(gpu([50.0] * 60, device=device) for device in range(4)))
    run = fusion.of_the_job(Run(nodes=(node(),), series=series, curves=(given_,)))
    assert [one.device for one in run.curves[0].series] == [1]
    assert "on which the job has processes" in run.warnings[0]
    elsewhere = curve(*(gpu([50.0] * 60, device=device, node="other") for device in range(4)))
    assert fusion.of_the_job(Run(nodes=(node(),), series=series, curves=(elsewhere,))).curves == (elsewhere,)


def test_a_trainers_log_that_differs_from_the_recorded_steps():
    log = nothing(Measurement("curve_step_time_mean_s", 0.4), Measurement("curve_data_wait_share", 0.3))
    said = list(fusion.remarks(log, Summary("", step_time_s=0.2, data_wait_share=0.02)))
    assert said == [
        "The trainer's log says that a mean step takes 0.4 s, what was recorded of them 0.2 s.",
        "The trainer's log says that steps wait for data 30% of their time, the recording 2%.",
    ]
    assert list(fusion.remarks(log, Summary("", step_time_s=0.41, data_wait_share=0.28))) == []


def test_what_a_trainers_log_waits_for_is_not_ruled_out_by_a_few_traced_steps():
    waits = Finding(
        "curve.data_wait", "high", 0.6, "Steps wait.", 0.3, candidates=("input.storage", "sync.scalar_read")
    )
    found = fusion.settled([waits], nothing(Measurement("curve_data_wait_share", 0.3)))
    assert found == [waits]


def test_a_log_of_every_tenth_step_rules_out_no_waits_of_some_steps():
    shape = replace(SAWTOOTH, candidates=("input.workers_zero", "input.worker_startup", "input.storage"))
    quiet = Measurement("curve_data_wait_share", 0.0)
    every, tenth = (fusion.settled([shape], nothing(quiet, Measurement("curve_log_every", n))) for n in (1.0, 10.0))
    assert every[0].candidates == ()
    assert tenth[0].candidates == ("input.worker_startup", "input.storage")


@pytest.mark.parametrize(("share", "left"), [(0.8, ("hw.power_cap",)), (0.0, ())])
def test_a_reason_that_holds_the_clock_down_stays_a_candidate(share, left):
    shift = replace(SAWTOOTH, rule="curve.step_change", candidates=("hw.power_cap", "hw.thermal"))
    told = {"throttle_power_share": share, "throttle_thermal_share": 0.0, "clock_share": 0.72, "temperature_c": 60.0}
    measured = (Measurement(name, value) for name, value in told.items())
    found = fusion.settled([shift], nothing(*measured, Measurement("utilization_mean_share", 0.99)))
    assert found[0].candidates == left
