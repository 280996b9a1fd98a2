"""The screen of a comparison: what comes from files is harmless, and it can be drawn in ASCII."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from whyidle.model.comparison import Arm, Change, Comparison, Confounder, Interval, Learning, Promise
from whyidle.model.finding import Estimate, RunInfo, Summary
from whyidle.render.base import Look
from whyidle.render.comparison import FORMATS, comparison_json, comparison_markdown, comparison_text

EVIL = "run\x1b[31m\nred|*"
SUMMARY = Summary("", gpu_idle_share=0.4, idle_by_cause={"data_wait": 0.3, "gc": 0.1}, step_time_mean_s=0.1)
ARM = Arm((EVIL,), RunInfo(), SUMMARY, 90, 10, "ProfilerStep", 0.1, 0.11, 300.0, None, 1.2)
FOUND = Comparison(
    "improved",
    "Improved: 1.33x the steps per second (1.20x–1.40x, 95%). More of it.",
    ARM,
    ARM,
    Interval(1.3, 1.4, 1.5),
    Interval(1.2, 1.33, 1.4),
    learning=Learning("the same", "The loss is the same.", required="batch_size"),
    confounders=(
        Confounder("node", "a", "b", "doubts", f"they ran on different machines ({EVIL}; b)."),
        Confounder("num_workers", "0", EVIL, "noted", f"num_workers: 0 → {EVIL}"),
    ),
    not_recorded=("clocks",),
    predicted=(
        Promise("input.workers_zero", "x", True, Estimate(1.3, 1.4, 1.5), Interval(1.2, 1.33, 1.4), True),
        Promise("host.launch_bound", "x", False, Estimate(1.1, 1.2, 1.3), None, None, "still there"),
        Promise("compile.not_used", "x", True, None, None, None, "no longer found in AFTER"),
    ),
    changes=tuple(Change("kernel", f"kernel{EVIL}{k}", "slower", 1, 1, 0.001, 0.002) for k in range(12)),
    changes_per="step",
    warnings=(f"{EVIL} is odd.",),
)


def test_the_answer_comes_first() -> None:
    first, second, *_ = comparison_text(FOUND, Look()).splitlines()
    assert first == "  Improved: 1.33x the steps per second (1.20x–1.40x, 95%)."
    assert second == "  More of it."


def test_what_comes_from_files_is_harmless() -> None:
    for look in (Look(), Look(everything=True), Look(color=True, everything=True)):
        shown = comparison_text(FOUND, look)
        assert "\x1b[31mred" not in shown
        assert "red|*" in shown
    assert "\x1b" not in comparison_text(FOUND, Look(everything=True))
    assert r"red\|\*" in comparison_markdown(FOUND, Look())
    assert "\x1b" not in comparison_markdown(FOUND, Look())


@pytest.mark.parametrize("width", [20, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    found = replace(FOUND, speedup=Interval(100.0, 123.45, 150.0))
    shown = comparison_text(found, Look(width=width, everything=True))
    assert "123.45x" in shown
    assert max(map(len, shown.splitlines())) <= min(max(width, 60), 120)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_ascii(format: str) -> None:  # noqa: A002 - as the command line calls it
    FORMATS[format](FOUND, Look(unicode=False, everything=True)).encode("ascii")


def test_operators_are_listed_when_asked_for() -> None:
    assert "slower" not in comparison_text(FOUND, Look())
    shown = comparison_text(FOUND, Look(everything=True))
    assert shown.count("slower: kernel") == 10
    assert "and 2 more" in shown


def test_idle_time_is_told_in_shares_and_in_time_per_step() -> None:
    shown = comparison_text(FOUND, Look())
    (line,) = [line for line in shown.splitlines() if "waiting for data" in line]
    assert line.split() == ["waiting", "for", "data", "30%", "30", "ms", "30%", "30", "ms"]


def test_phases_that_only_one_side_recorded_are_not_known_of_the_other() -> None:
    one, other = (
        replace(ARM, summary=Summary("", host_shares=shares, step_time_mean_s=0.1)) for shares in ({"data": 0.3}, {})
    )
    shown = comparison_text(Comparison("no detectable change", "No.", one, other), Look())
    (line,) = [line for line in shown.splitlines() if "waiting for data" in line]
    assert line.split() == ["waiting", "for", "data", "30%", "30", "ms", "not", "known"]


def test_what_was_predicted_and_what_came_of_it() -> None:
    shown = " ".join(comparison_text(FOUND, Look()).split())
    assert "input.workers_zero, predicted 1.40x (1.30x–1.50x): came true, measured 1.33x (1.20x–1.40x)." in shown
    assert "not made host.launch_bound (predicted 1.20x (1.10x–1.30x))." in shown
    assert "learning The loss is the same." in shown


@pytest.mark.parametrize(
    ("measured", "came_true", "said"),
    [
        (Interval(1.2, 1.33, 1.4), True, "came true, measured 1.33x"),
        (Interval(1.6, 1.7, 1.8), False, "brought more, measured 1.70x"),
        (Interval(0.9, 1.0, 1.1), False, "did not come true, measured 1.00x"),
        (Interval(0.9, 1.2, 1.5), None, "made, measured 1.20x (0.90x–1.50x) (vague)"),
    ],
)
def test_what_became_of_a_prediction(measured: Interval, came_true: bool | None, said: str) -> None:
    promise = Promise("input.workers_zero", "x", True, Estimate(1.3, 1.4, 1.5), measured, came_true, "vague")
    assert said in " ".join(comparison_text(replace(FOUND, predicted=(promise,)), Look()).split())


def test_json_has_no_infinity() -> None:
    found = json.loads(comparison_json(FOUND, Look()))
    assert found["verdict"] == "improved"
    endless = Comparison("cannot judge", "Cannot judge.", ARM, ARM, throughput_ratio=Interval(0.0, 1.0, math.inf))
    assert json.loads(comparison_json(endless, Look()))["throughput_ratio"] == {"low": 0, "likely": 1, "high": None}
