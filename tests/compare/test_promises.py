"""Which fixes count as made, and which predictions as come true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compare.sides import repeat, steps
from whyidle.compare.arms import Repeat
from whyidle.compare.promises import kept
from whyidle.compare.verdict import Judged
from whyidle.measure.step_log import WatchedJob
from whyidle.model.comparison import Confounder, Interval, Per, Promise
from whyidle.model.evidence import StepLog
from whyidle.model.finding import Estimate, Finding, Fix, Predicted, Severity, Unknown

MEASURED = Judged("improved", "", "step", None, Interval(1.3, 1.4, 1.5))


def finding(
    rule: str = "input.workers_zero",
    change: str = "DataLoader(..., num_workers=4, pin_memory=True)",
    speedup: tuple[float, float, float] | None = (1.2, 1.35, 1.45),
    lost: float = 0.3,
    severity: Severity = "high",
    per: Per = "step",
) -> Finding:
    guess = Estimate(1, 1, 1)
    predicted = None
    if speedup is not None:
        predicted = Predicted(guess, guess, Estimate(*speedup), per="sample" if per == "sample" else "step")
    return Finding(
        rule, severity, 0.9, "", lost, fixes=(Fix("Load elsewhere", change, "argument", predicted=predicted),)
    )


def changed(name: str, before: str, after: str) -> Confounder:
    return Confounder(name, before, after, "noted", "")


def after(*findings: Finding, unknown: str = "", watched: bool = True) -> Repeat:
    one = repeat(steps(0.1), findings=findings)
    log = StepLog.__new__(StepLog)  # nothing of it is looked at
    measured = replace(one.measured, watched=WatchedJob(logs=(log,))) if watched else one.measured
    report = replace(one.report, unknown=(Unknown(unknown, (), ""),) if unknown else ())
    return replace(one, measured=measured, report=report)


def only(before: Finding, after_: Repeat, *changes: Confounder, found: Judged = MEASURED) -> Promise:
    (promise,) = kept(repeat(steps(0.1), findings=(before,)), after_, changes, found)
    return promise


def test_a_setting_that_was_changed_as_asked_is_made() -> None:
    promise = only(finding(), after(finding()), changed("num_workers", "0", "2"))
    assert (promise.made, promise.came_true, promise.measured) == (True, True, MEASURED.throughput)
    assert promise.why == "num_workers was changed"


@pytest.mark.parametrize(
    ("name", "old", "new"), [("num_workers", "2", "0"), ("pin_memory", "True", "False"), ("x", "0", "4")]
)
def test_a_setting_that_was_changed_otherwise_is_not(name: str, old: str, new: str) -> None:
    promise = only(finding(), after(finding()), changed(name, old, new))
    assert (promise.made, promise.measured, promise.came_true) == (False, None, None)
    assert promise.predicted is not None


def test_a_problem_that_is_gone_is_made_and_one_that_is_left_is_not() -> None:
    assert only(finding(), after()).made is True
    assert only(finding(), after(finding(lost=0.25))).made is False
    assert only(finding(lost=0.3), after(finding(lost=0.1))).made is True


def test_what_cannot_be_known_is_not_known() -> None:
    assert only(finding(), after(unknown="input.workers_zero")).made is None
    assert only(finding(), after(watched=False)).made is None
    assert only(finding(severity="low", lost=0.03), after()).made is None


def test_a_prediction_that_misses_did_not_come_true() -> None:
    assert only(finding(speedup=(2.0, 2.2, 2.5)), after()).came_true is False
    assert only(finding(speedup=(1.5, 1.6, 1.7)), after()).came_true is True  # the ranges meet


def test_what_else_was_changed_is_told_beside_what_was_measured() -> None:
    others = (
        changed("num_workers", "0", "4"),
        changed("compile", "False", "True"),
        changed("prefetch_factor", "not set", "2"),  # comes with workers
        changed("command", "", ""),
    )
    assert only(finding(), after(), *others).beside == ("compile",)


def test_nothing_comes_true_by_a_range_that_holds_no_gain_as_well() -> None:
    vague = replace(MEASURED, verdict="no detectable change", throughput=Interval(0.8, 1.4, 2.5))
    promise = only(finding(), after(), found=vague)
    assert (promise.came_true, promise.measured) == (None, vague.throughput)
    assert "it may have brought nothing" in promise.why
    worse = replace(MEASURED, verdict="regressed", throughput=Interval(0.7, 0.8, 0.9))
    assert only(finding(), after(), found=worse).came_true is False


def test_nothing_comes_true_that_was_not_predicted_or_not_measured() -> None:
    assert only(finding(speedup=None), after()).came_true is None
    assert only(finding(), after(), found=Judged("cannot judge", "")).came_true is None


def test_samples_and_steps_are_not_held_against_each_other() -> None:
    promise = only(finding(per="sample"), after())
    assert promise.came_true is None
    assert promise.why == "predicted per sample, measured per step"
    assert only(finding(per="sample"), after(), found=replace(MEASURED, per="sample")).came_true is True


def test_what_was_made_together_is_scored_together() -> None:
    before = repeat(steps(0.1), findings=(finding(), finding("host.launch_bound", "torch.compile(model)")))
    one, other, both = kept(before, after(), (), MEASURED)
    assert one.measured is other.measured is None
    assert one.made is other.made is True
    assert both.rule == "input.workers_zero + host.launch_bound"
    assert both.came_true is None  # an empty run is not replayed
