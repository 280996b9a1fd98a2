"""The arithmetic of the board of predictions, on jobs and reports that are written here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scoring.predictions import (
    Priced,
    Promise,
    cured,
    cured_together,
    first_right,
    gained,
    of_change,
    of_kind,
    score_predictions,
    unpriced,
)
from scoring.priced import priced_of
from scoring.rates import Spread
from scoring.records import Fault, Outcome, Said, Truth
from scoring.replayed import Pair, Played, Recordings, step_errors
from scoring.show import WIDTH
from scoring.show_predictions import boards
from scoring.show_replayed import recordings, speed
from scoring.speed import Cost, Speed
from whyidle.model.finding import (
    Applied,
    Asked,
    Edit,
    Estimate,
    Finding,
    Fix,
    Predicted,
    Prediction,
    Report,
    RunInfo,
    Summary,
)

WORKERS, READ = "input.workers_zero", "sync.scalar_read"


def priced(faults=((WORKERS, 0.4),), likely=0.06, base=0.1, also=(), rule=None, said=True, **more):
    """A job of 0.1 s per step; the cure of its first fault is said to make it `likely`."""
    truth = Truth(
        "job", "gpt", 0, 1,
        faults=tuple(Fault(cause, share, share) for cause, share in faults),
        also=tuple(Fault(cause, share, share) for cause, share in also),
    )  # fmt: skip
    rule = rule or (faults[0][0] if faults else WORKERS)
    findings = (Said(rule, "high", 0.9, 0.3),) if said else ()
    promises = (Promise(rule, "a fix", ("scale_host",), False, likely * 0.95, likely, likely * 1.05),) if likely else ()
    fields = {"base_s": base, "promises": promises, "naive": {rule: 0.5}, "sequence": (rule,)} | more
    return Priced(Outcome(truth, findings), step_s=0.1, **fields)


def one(job):
    (forecast,) = cured(job)
    return forecast


class TestForecasts:
    def test_errors_are_of_the_true_step_and_of_the_true_saving(self):
        forecast = one(priced(likely=0.066))
        assert forecast.truth_s == pytest.approx(0.06)
        assert forecast.step_error == pytest.approx(0.1)
        assert forecast.saving == pytest.approx(0.4)
        assert forecast.predicted_saving == pytest.approx(0.34)
        assert forecast.saving_error == pytest.approx(-0.15)

    def test_the_saving_is_of_the_step_as_we_replay_it(self):
        assert one(priced(likely=0.066, base=0.11)).saving_error == pytest.approx(0.0)

    def test_an_interval_holds_the_truth_or_not(self):
        assert one(priced(likely=0.062)).covered
        assert not one(priced(likely=0.066)).covered

    def test_peers_take_shares_off_the_step_that_ran(self):
        forecast = one(priced())
        assert forecast.peer_error(forecast.own_share) == pytest.approx(0.07 / 0.06 - 1)
        assert forecast.peer_error(forecast.naive_share) == pytest.approx(0.05 / 0.06 - 1)
        assert forecast.peer_error(0.0) == pytest.approx(0.1 / 0.06 - 1)
        assert forecast.peer_error(None) is None

    def test_a_finding_that_a_trace_cannot_tell_from_the_fault_speaks_for_it(self):
        forecast = one(priced(faults=(("input.storage", 0.4),), rule="input.workers_too_few"))
        assert (forecast.change, forecast.promise.rule) == ("input.storage", "input.workers_too_few")

    def test_what_is_not_found_or_not_priced_is_no_forecast(self):
        assert not list(cured(priced(said=False)))
        assert not list(cured(priced(likely=None)))
        assert not list(cured(priced(faults=())))

    def test_the_fix_that_the_simulator_makes_is_held_against_what_it_makes(self):
        rule = "pause.evaluation"
        promises = tuple(
            Promise(rule, "", ("scale_host",), False, at, at, at, place) for place, at in ((0, 0.09), (2, 0.08))
        )
        forecast = one(priced(faults=((rule, 0.4),), promises=promises))
        assert forecast.promise.place == 2
        assert forecast.truth_s == pytest.approx(0.08)  # half of it is cured
        assert forecast.own_share == pytest.approx(0.15)

    def test_of_two_faults_only_both_cures_together_are_scored(self):
        both = Promise("a + b", "", (), False, 0.04, 0.05, 0.06)
        job = priced(faults=((WORKERS, 0.3), (READ, 0.2)), together=both, without_all_s=0.05)
        assert not list(cured(job))
        (forecast,) = cured_together(job)
        assert forecast.step_error == pytest.approx(0.0)
        assert not list(
            cured_together(priced(faults=((WORKERS, 0.3), (READ, 0.01)), together=both, without_all_s=0.05))
        )

    def test_what_else_a_job_would_gain_by_is_held_against_the_very_rule(self):
        job = priced(faults=(), also=((WORKERS, 0.4), (READ, 0.1)))
        (forecast,) = gained(job)
        assert (forecast.change, forecast.truth_s) == (WORKERS, pytest.approx(0.06))


class TestScores:
    def test_small_savings_count_for_the_step_only(self):
        score = of_change("x", [one(priced()), one(priced(faults=((WORKERS, 0.05),), likely=0.095))])
        assert (score.step.n, score.saving.n) == (2, 1)

    def test_sigma_is_what_would_make_an_80_percent_interval_hold_80_percent(self):
        jobs = [one(priced(likely=0.1 - 0.04 * (1 + error / 100))) for error in range(-50, 51)]
        score = of_kind("scale_host", jobs)
        assert score.sigma == pytest.approx(0.40 / 1.281552, abs=0.005)
        assert score.sigma_step == pytest.approx(0.16 / 1.281552, abs=0.002)

    def test_a_prior_is_a_kind_of_its_own(self):
        promise = Promise(WORKERS, "", ("scale_host", "merge_launches", "scale_host"), True, 0.05, 0.06, 0.07)
        assert one(priced(promises=(promise,))).kind == "merge_launches+scale_host (prior)"

    def test_why_a_cure_has_no_price(self):
        jobs = [
            priced(said=False),
            priced(likely=None, unpriced={WORKERS: "no steps"}),
            priced(likely=None, refused="the replay is off by 9%"),
            priced(faults=((WORKERS, 0.01),), said=False),
            priced(),
        ]
        assert [why for why, _ in unpriced(jobs)] == ["not found", "no steps"]

    def test_first_of_the_sequence(self):
        assert first_right(priced())
        assert not first_right(priced(sequence=()))
        assert not first_right(priced(rule="host.gc_pause"))

    def test_nothing_measured_is_not_met_nor_missed(self):
        board = score_predictions([])
        assert {target.met for target in board.targets} == {None}
        assert "\n".join(boards({"matched": board}))

    def test_targets(self):
        good = score_predictions([priced(identity=(0.001, -0.002))] * 8 + [priced(likely=0.0657)] * 2)
        met = {target.goal: target.met for target in good.targets}
        assert met.pop("80% intervals hold 70% to 90%")
        assert all(met.values())
        bad = score_predictions([priced(likely=0.09, identity=(0.05,))])
        assert [target.met for target in bad.targets] == [False] * 6 + [True]

    def test_boards_fit_the_screen(self):
        jobs = [priced(), priced(faults=((READ, 0.2),)), priced(likely=None, unpriced={WORKERS: "why " * 60})]
        lines = list(boards({"matched": score_predictions(jobs)}))
        assert max(map(len, lines)) <= WIDTH
        assert any(WORKERS in line for line in lines)

    def test_a_score_can_be_written(self):
        from dataclasses import asdict

        assert json.dumps(asdict(score_predictions([priced()])))


def estimate(value):
    return Estimate(value * 0.9, value, value * 1.1)


def predicted(step, *rests_on):
    return Predicted(estimate(step), estimate(step), estimate(0.1 / step), rests_on=rests_on)


TRUTH = {
    "job": {"family": "gpt", "gpu": "A100", "ranks": 1, "seed": 3, "steps": 6},
    "step_time_s": 0.1,
    "step_time_without_all_s": 0.05,
    "faults": [
        {"id": WORKERS, "asked": 0.4, "severity": 0.4, "step_time_without_s": 0.06},
        {"id": READ, "asked": 0.1, "severity": 0.1, "step_time_without_s": 0.09},
    ],
    "control": None,
    "misspecified": None,
    "devices": [{"rank": 0, "device": 0, "window_s": 3.0, "busy_share": 0.8, "idle_by_cause": {"data_wait": 0.2}}],
}


def test_a_report_becomes_what_is_scored():
    edits = (Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.02, "prior": 1.0}),)
    fixes = (
        Fix("not priced", "x", "argument"),
        Fix("workers", "x", "argument", edits=edits, predicted=predicted(0.061, "what workers leave")),
    )
    finding = Finding(WORKERS, "high", 0.9, "", 0.4, fixes=fixes)
    sequence = (Applied(WORKERS, "workers", predicted(0.061), 0.39, ""),)
    prediction = Prediction(
        step_time_mean_s=0.1, sequence=sequence, asked=(Asked((WORKERS, READ), predicted(0.052)),), unpriced={READ: "?"}
    )
    summary = Summary("", step_time_mean_s=0.1, gpu_idle_share=0.3, gpu_busy_share=0.7, data_wait_share=0.45)
    job = priced_of(TRUTH, Report(RunInfo(), summary, (finding,), prediction=prediction), identity=[0.0])
    (promise,) = job.promises
    assert (promise.title, promise.kinds, promise.prior, promise.likely) == ("workers", ("scale_host",), True, 0.061)
    assert job.naive == {WORKERS: 0.45}
    assert job.sequence == (WORKERS,)
    (forecast,) = cured_together(job)
    assert forecast.step_error == pytest.approx(0.04)


def test_a_report_without_predictions_is_a_mistake_of_the_board():
    with pytest.raises(ValueError, match="predict=True"):
        priced_of(TRUTH, Report(RunInfo(), Summary("")))


class TestRecordings:
    def test_errors_of_steps_are_percent(self):
        assert step_errors([100, 200], [101, 190]) == pytest.approx([1.0, -5.0])

    def test_pairs_say_how_far_off(self):
        pair = Pair("a", 176.0, 126.0, 107.0, 120.0)
        assert pair.error == pytest.approx(-0.0476, abs=1e-4)
        assert Pair("a", 176.0, 126.0, 107.0, None, why_not="refused").error is None

    def test_tables_fit_the_screen(self):
        played = (
            Played("kineto/" + "long/" * 20, "", (0.1, 0.2), 1021, 0.7, 95.7, 48.0, 95.0),
            Played("kineto/b", "no steps " * 20),
        )
        score = Recordings(played, Spread.of([0.1, 0.2]), 0.15, (Pair("a", 176.0, 126.0, 107.0, None, why_not="no"),))
        costs = Speed((Cost(5, 5245.0, 100_000, 4, 9, 7, 3.0, 1.0, 300.0, 250.0),))
        lines = [*recordings(score), *speed(costs)]
        assert max(map(len, lines)) <= WIDTH
        assert any("(host)" in line for line in lines)
        assert lines[-1].endswith("2.0 s, met")


def test_the_job_whose_price_is_timed_launches_enough():
    from scoring.speed import LAUNCHES, job
    from world.simulation import run

    done = run(job(1))
    assert done.launched / (1 + done.job.warmup) >= LAUNCHES


def test_help_fits(capsys: pytest.CaptureFixture[str]):
    import importlib.util

    spec = importlib.util.spec_from_file_location("board", Path(__file__).parents[2] / "bench" / "replay.py")
    board = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    with pytest.raises(SystemExit):
        board.arguments(["--help"])
    assert "--only" in capsys.readouterr().out
