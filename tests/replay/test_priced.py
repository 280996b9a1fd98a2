"""What fixes of watched jobs are said to be worth: against cures that were really made, by arithmetic, and by laws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.pairs import CURES, Told, told
from whyidle import judge
from whyidle.measure import Measured, measure
from whyidle.model.evidence import Value
from whyidle.model.finding import Edit, Estimate, Finding, Fix, Predicted, Prediction
from whyidle.model.measurement import Measurement, Measurements
from whyidle.read import load
from whyidle.replay.watched import LATEST, Job, Pause, changed, job_of, predicted
from whyidle.rules import ask
from whyidle.rules.input import loader_model

WATCHED = Path(__file__).parents[1] / "runs" / "watched"
UNPRICED = {"threads"}  # nobody measured how long its operators take with fewer threads
CLOSE = 0.10  # of the step of the cured job


@pytest.fixture(scope="module")
def pairs() -> dict[str, Told]:
    return {one.cure.pair: one for one in told(WATCHED)}


@pytest.mark.parametrize("pair", sorted({cure.pair for cure in CURES} - UNPRICED))
def test_a_cure_does_what_was_predicted(pairs: dict[str, Told], pair: str) -> None:
    one = pairs[pair]
    assert one.error is not None
    assert one.median_error is not None
    assert one.saving_error is not None
    assert abs(one.error) <= CLOSE
    assert abs(one.median_error) <= CLOSE
    assert abs(one.saving_error) <= 0.25
    assert one.covered


def test_what_a_log_cannot_price_says_what_it_takes(pairs: dict[str, Told]) -> None:
    assert pairs["threads"].predicted_mean is None
    assert "run with the change made" in pairs["threads"].why_not


@pytest.mark.parametrize("folder", sorted(path.name for path in WATCHED.iterdir()))
def test_with_nothing_changed_the_step_is_as_long_as_it_was(folder: str) -> None:
    m = measure(load([str(WATCHED / folder)])).measurements
    job = job_of(m)
    assert isinstance(job, Job)
    off = job.play().mean / m.number("step_time_mean_s") - 1
    assert abs(off) <= (0.25 if folder == "threads-eight-each" else 0.07)  # its threads wait for each other, too


def test_a_model_that_misses_what_was_recorded_prices_no_loader() -> None:
    measured = measure(load([str(WATCHED / "threads-eight-each")]))
    loads = Finding("input.workers_too_few", "high", 0.8, "", 0.3, fixes=(data_fix(factor=0.5),))
    saves = replace(loads, rule="pause.checkpoint_sync", fixes=(fix("checkpoint", factor=0.5),))
    (first, second), prediction = judge.predicted(measured, (loads, saves), ())
    assert first.fixes[0].predicted is None
    assert "with nothing changed" in prediction.unpriced["input.workers_too_few"]
    assert second.fixes[0].predicted is not None
    assert prediction.identity_error is not None
    assert prediction.identity_error > LATEST


def fix(cause: str, **coefficients: float) -> Fix:
    return Fix("", "", "argument", edits=(Edit("scale_host", {"cause": cause}, coefficients),))


def data_fix(**coefficients: float) -> Fix:
    return fix("data_wait", **coefficients)


# A step of 100 ms on a GPU, of which 80 ms are waiting; a batch takes 80 ms and does not vary.
SLOW: dict[str, Value] = {
    "watched_s": 100.0, "watched_steps": 1000, "step_time_s": 0.1, "step_time_mean_s": 0.1, "on_gpu": True,
    "batch_seconds": 0.08, "batch_spread": 0.0, "lost_data_workers_share": 0.0, "lost_data_zero_share": 0.8,
    "num_workers": 0,
}  # fmt: skip


def measurements(given_: dict[str, Value]) -> Measurements:
    return Measurements(Measurement(name, value) for name, value in given_.items())


def job(**change: Value) -> Job:
    found = job_of(measurements(SLOW | change))
    assert isinstance(found, Job)
    return found


def worth(job_: Job, *fixes: Fix) -> Predicted:
    found = predicted(job_, [edit for one in fixes for edit in one.edits])
    assert isinstance(found, Predicted), found
    return found


@pytest.mark.parametrize(
    ("workers", "change", "step"),
    [
        (1, {}, 0.080),  # the worker's pace
        (2, {}, 0.040),
        (5, {}, 0.021),  # the training's own 20 ms, and half of 2 ms to receive a batch
        (5, {"on_gpu": False}, 0.022),
        (2, {"cpus_allowed": 2, "on_gpu": False}, 0.051),  # 102 ms of CPU on two of them
        (4, {"loader_batches_per_step": 2.0, "batch_seconds": 0.04}, 0.022),
    ],
)
def test_workers_are_worth_what_can_be_reckoned(workers: int, change: dict[str, Value], step: float) -> None:
    found = worth(job(**change), data_fix(factor=0.02, workers=workers))
    assert found.step_time_mean_s.likely == pytest.approx(step, rel=0.02)
    assert found.step_time_s.likely == pytest.approx(step, rel=0.03)
    assert found.speedup.likely == pytest.approx(0.1 / step, rel=0.02)
    assert found.rests_on == ()


def test_the_rules_plan_and_the_loop_agree_on_the_mean() -> None:
    """The rule finds the number of workers by three limits; the loop has them, too."""
    for cpus in (2, 4, 16):
        m = measurements(SLOW | {"cpus_allowed": cpus, "on_gpu": False})
        plan = loader_model.plan(m, 0.8, handover=loader_model.HANDOVER)
        assert plan is not None
        found = worth(job(cpus_allowed=cpus, on_gpu=False), data_fix(factor=0.02, workers=plan.workers))
        assert found.step_time_mean_s.likely == pytest.approx(0.1 * (1 - plan.saved), rel=0.05)


def test_a_batch_made_while_the_gpu_works_is_waited_for_in_part() -> None:
    hidden = job(lost_data_zero_share=0.3)
    assert hidden.play().mean == pytest.approx(0.1)
    assert worth(hidden, data_fix(factor=0.0, prior=1.0)).step_time_mean_s.likely == pytest.approx(0.07)


def test_pauses_are_arithmetic() -> None:
    saves = job(lost_data_zero_share=0.0, lost_save_share=0.4, saves=1000, num_workers=4)
    rarer = worth(saves, fix("checkpoint", factor=0.1, fewer=10))
    assert rarer.step_time_mean_s.likely == pytest.approx(0.064)
    assert rarer.step_time_s.likely == pytest.approx(0.060)  # the median step has none
    beside = worth(saves, fix("checkpoint", factor=0.1, prior=1.0))
    assert beside.step_time_s.likely == pytest.approx(0.064)
    assert beside.rests_on == ("0.1 of a checkpoint's pause is left",)
    assert beside.step_time_mean_s.high > rarer.step_time_mean_s.high
    seldom = job(lost_data_zero_share=0.0, lost_save_share=0.4, saves=2, num_workers=4)
    assert worth(seldom, fix("checkpoint", factor=0.5, fewer=2)).step_time_mean_s.likely == pytest.approx(0.08)


def test_half_as_many_evaluations_take_half_of_all_of_it() -> None:
    evaluates = job(
        lost_data_zero_share=0.0, lost_evaluation_share=0.1, host_evaluation_share=0.3, evaluations=10, num_workers=4
    )
    half = Fix(
        "", "", "setting",
        edits=(
            Edit("scale_host", {"cause": "evaluation"}, {"factor": 0.5, "fewer": 2.0}),
            Edit("scale_device", {"range": "evaluation"}, {"factor": 0.5, "fewer": 2.0}),
        ),
    )  # fmt: skip
    assert worth(evaluates, half).step_time_mean_s.likely == pytest.approx(0.085)
    metric = worth(evaluates, fix("evaluation", factor=0.3, prior=1.0))
    assert metric.step_time_mean_s.likely == pytest.approx(0.093)


def test_epochs_that_begin_without_a_wait() -> None:
    begins = job(lost_data_zero_share=0.0, lost_data_first_share=0.4, epochs=50, num_workers=2)
    kept = Fix(
        "", "", "argument", edits=(Edit("scale_host", {"cause": "data_wait", "step": "first"}, {"factor": 0.1}),)
    )
    assert worth(begins, kept).step_time_mean_s.likely == pytest.approx(0.064, rel=0.01)


def test_a_change_of_little_is_known_closely() -> None:
    saves = job(lost_data_zero_share=0.0, lost_save_share=0.02, saves=10, num_workers=4)
    found = worth(saves, fix("checkpoint", factor=0.5, fewer=2))
    assert found.step_time_mean_s.low >= 0.0975
    assert found.step_time_mean_s.high <= 0.1 * (1 + 1e-9), "what only leaves away makes no step longer"


def test_a_factor_that_settings_replace_is_not_rested_on() -> None:
    assert worth(job(), data_fix(factor=0.02, workers=5, prior=1.0)).rests_on == ()
    assert worth(job(), data_fix(factor=0.3, prior=1.0)).rests_on == ("0.3 of the time that a batch takes is left",)


def test_of_two_fixes_the_one_that_sets_more_counts() -> None:
    both = worth(job(), data_fix(factor=0.02, workers=5), data_fix(factor=0.02, workers=2))
    assert both.step_time_mean_s == worth(job(), data_fix(factor=0.02, workers=5)).step_time_mean_s


CROWDED: dict[str, Value] = {
    "on_gpu": False, "cpus_allowed": 2, "cpus_online": 2, "cpus_taken": 1.5, "main_cpu_share": 0.4,
    "main_run_delay_share": 0.6, "job_cpu_share": 0.2, "batch_cpu_share": 0.4, "batch_run_delay_share": 0.6,
    "batch_blocked_share": 0.0, "lost_data_zero_share": 0.4, "batch_seconds": 0.04,
}  # fmt: skip


def test_other_programs_stay_unless_the_fix_is_to_leave_them() -> None:
    """Each process gets two fifths of a CPU: others are 4, and with a worker five and the training share two CPUs."""
    crowded = job(**CROWDED)
    assert crowded.others == pytest.approx(4.0)
    assert crowded.play().mean == pytest.approx(0.1, rel=0.01)
    stays = worth(crowded, data_fix(factor=0.02, workers=1))
    slower = (4 + 2) / 2
    assert 24 * 2.5 < stays.step_time_mean_s.likely * 1e3 < (24 + 2) * slower
    assert "other programs go on using the CPUs as they did" in stays.rests_on
    leaves = worth(crowded, data_fix(factor=0.3, cpus=2.0))
    assert leaves.step_time_mean_s.likely == pytest.approx(0.04, rel=0.01)  # 16 and 24 ms of CPU
    assert leaves.rests_on == ()


def test_what_other_programs_cost_the_training_itself_is_not_sold_as_the_waits_for_data() -> None:
    """Its own work waits for a CPU 80% of the time, and for data 7%: of that an end of the others is no cure."""
    change: dict[str, Value] = {
        "lost_data_zero_share": 0.0, "lost_data_workers_share": 0.07, "num_workers": 2, "batch_seconds": 0.09,
        "main_cpu_share": 0.13, "main_run_delay_share": 0.8,
    }  # fmt: skip
    crowded = job(**CROWDED | change)
    assert crowded.took == pytest.approx(0.093)
    alone = data_fix(factor=0.3, cpus=2.0).edits
    assert "slow the training down more than its loader" in str(predicted(crowded, alone))
    assert isinstance(predicted(crowded, data_fix(factor=0.02, workers=3).edits), Predicted)


def test_a_wait_for_data_that_no_loader_makes() -> None:
    """The rule takes the time between steps for the making of a batch, and so do we, and say so."""
    given_ = {name: value for name, value in SLOW.items() if not name.startswith("batch_")}
    alone = job_of(measurements(given_ | {"lost_data_zero_share": 0.0, "lost_data_other_share": 0.6}))
    assert isinstance(alone, Job)
    found = worth(alone, data_fix(factor=0.02, workers=4))
    assert found.step_time_mean_s.likely == pytest.approx(0.041, rel=0.05)
    assert found.rests_on == ("the time between steps is what making a batch takes",)


def told_of(given_: dict[str, Value], *findings: Finding) -> tuple[tuple[Finding, ...], Prediction]:
    measured = replace(measure(load([str(WATCHED / "loader-workers-0")])), measurements=measurements(given_))
    assert isinstance(measured, Measured)
    return judge.predicted(measured, tuple(findings), ())


@pytest.mark.parametrize("batches", [1_000, 100_000, 10_000_000])
def test_steps_of_any_number_of_batches_are_played(batches: int) -> None:
    """Workers that are the limit make one in 50 ms; what is simulated does not grow with their number."""
    job = Job(own=0.02 * batches, making=0.2, workers=4, per_step=batches, cpus=8.0, own_cpus=1.0)
    assert job.play().mean / batches == pytest.approx(0.05, rel=0.02)


def test_what_is_not_the_loaders_takes_a_trace() -> None:
    other = Finding("host.python_overhead", "high", 0.5, "", 0.3, fixes=(fix("python", factor=0.0),))
    startup = replace(other, rule="pause.startup", fixes=(fix("startup", factor=0.5),))
    (first, second), prediction = told_of(SLOW, other, startup)
    assert first.fixes[0].predicted is None
    assert second.fixes[0].predicted is None
    assert prediction.unpriced[other.rule] == "takes a trace: whyidle run without --no-trace"
    assert "no part of a step" in prediction.unpriced[startup.rule]
    assert prediction.refused


def test_unknown_waits_price_nothing() -> None:
    given_ = {name: value for name, value in SLOW.items() if name != "lost_data_zero_share"}
    loads = Finding("input.workers_zero", "high", 0.9, "", 0.8, fixes=(data_fix(factor=0.02, workers=4),))
    (found,), prediction = told_of(given_, loads)
    assert found.fixes[0].predicted is None
    assert "not measured" in prediction.refused
    (priced,), prediction = told_of(SLOW, loads)
    assert priced.fixes[0].predicted is not None
    assert not prediction.refused
    assert not prediction.unpriced


def test_every_input_rules_fix_is_data_enough() -> None:
    """Of a watched job whose loader is known, each fix of a finding on its loader or its pauses is priced."""
    for folder in sorted(WATCHED.iterdir()):
        measured = measure(load([str(folder)]))
        findings, _ = ask(measured.measurements)
        for finding in judge.predicted(measured, tuple(findings), ())[0]:
            if finding.rule.startswith(("input.", "pause.")):
                assert all(one.predicted for one in finding.fixes), (folder.name, finding.rule)


jobs = st.builds(
    Job,
    own=st.floats(0.005, 0.2),
    making=st.floats(0.001, 0.5),
    spread=st.sampled_from([0.0, 0.3, 1.0]),
    cpu_share=st.sampled_from([0.1, 1.0]),
    workers=st.integers(0, 6),
    prefetch=st.integers(1, 4),
    cpus=st.sampled_from([None, 2.0, 8.0]),
    own_cpus=st.just(1.0),
    own_slows=st.just(1.0),
    first=st.sampled_from([0.0, 0.01]),
    saves=st.sampled_from([Pause(), Pause(0.1, every=10.0), Pause(5.0, every=500.0)]),
)
removals = st.sampled_from(
    [
        data_fix(factor=0.1),
        data_fix(factor=0.5, prior=1.0),
        fix("checkpoint", factor=0.5),
        fix("checkpoint", factor=0.5, fewer=2.0),
        Fix("", "", "argument", edits=(Edit("scale_host", {"cause": "data_wait", "step": "first"}, {"factor": 0.1}),)),
    ]
)


def ordered(e: Estimate) -> bool:
    return 0 < e.low <= e.likely <= e.high


@settings(max_examples=40, deadline=None)
@given(jobs, removals, removals)
def test_laws(job_: Job, one: Fix, other: Fix) -> None:
    """What only removes work makes no step longer, both remove no less than one, and none goes below its own work."""
    before = job_.play().mean
    first, second, both = worth(job_, one), worth(job_, other), worth(job_, one, other)
    for found in (first, second, both):
        assert ordered(found.step_time_s)
        assert ordered(found.step_time_mean_s)
        assert ordered(found.speedup)
        assert job_.own * (1 - 1e-9) <= found.step_time_mean_s.likely <= before * 1.01
    best = min(first.step_time_mean_s.likely, second.step_time_mean_s.likely)
    assert both.step_time_mean_s.likely <= best * 1.01


@settings(max_examples=30, deadline=None)
@given(jobs, st.integers(1, 8))
def test_workers_never_go_below_what_limits_them(job_: Job, workers: int) -> None:
    after = changed(job_, data_fix(factor=0.02, workers=workers).edits)
    assert isinstance(after, Job)
    mean = after.play().mean
    cpu = (after.making * after.cpu_share + after.own) / after.cpus if after.cpus else 0.0
    assert mean >= max(after.own, after.making / after.workers, cpu) * 0.93  # unequal batches: the mean of 1,500 draws
