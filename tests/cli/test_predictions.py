"""`--what-if` and `--no-predict`: what the judge is asked, and every way to ask in vain."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import whyidle
from whyidle import diagnosis
from whyidle.cli import main
from whyidle.model.finding import Asked, Prediction, Report

FOUND = "host.gc_pause"  # what the judge of the fixture finds


@pytest.fixture
def options(verdict: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return with which options the judge was asked last."""
    report: Report = verdict("high")
    told: dict[str, Any] = {}

    def judge(run: object, **options: Any) -> Report:
        told.clear()
        told.update(options)
        return report

    monkeypatch.setattr(diagnosis, "judge", judge)
    return told


@pytest.mark.parametrize(
    ("arguments", "predict", "what_if"),
    [
        ("", True, ()),
        ("--no-predict", False, ()),
        (f"--what-if {FOUND}", True, (FOUND,)),
        (f"--what-if input.workers_zero,{FOUND},,{FOUND}", True, ("input.workers_zero", FOUND)),
    ],
)
def test_what_the_judge_is_asked(arguments: str, predict: bool, what_if: tuple[str, ...], options: Any) -> None:
    assert main(["trace.json", *arguments.split()]) == 1
    assert options == {"predict": predict, "what_if": what_if, "measured": None}


def test_a_rule_that_there_is_not(options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for format_ in ("terminal", "json"):
        arguments = ["trace.json", "--what-if", f"{FOUND},input.worker_zero,x", "--format", format_]
        assert main(arguments) == 2
        assert capsys.readouterr() == (
            "",
            f"whyidle: no rule is called 'input.worker_zero' or 'x'\nhint: found in this recording: {FOUND}\n",
        )
        assert options["predict"] is False


def test_a_rule_that_there_is_not_where_nothing_was_found(verdict: Any, capsys: pytest.CaptureFixture[str]) -> None:
    verdict()
    assert main(["trace.json", "--what-if", "x"]) == 2
    assert capsys.readouterr().err.endswith("hint: found in this recording: nothing\n")


def test_a_question_and_no_prediction(options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace.json", "--what-if", FOUND, "--no-predict", "--format", "json"]) == 2
    message = "whyidle: --what-if asks for a prediction, and --no-predict for none\nhint: give one of the two\n"
    assert capsys.readouterr() == ("", message)
    assert options == {}


def test_a_rule_that_found_nothing_is_no_mistake(options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace.json", "--what-if", f"{FOUND},input.workers_zero"]) == 1
    shown = capsys.readouterr().out
    assert f"  with {FOUND}: not predicted: this recording was not replayed\n" in shown
    assert "  input.workers_zero: not found in this recording\n" in shown


def test_every_question_gets_an_answer(verdict: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    report: Report = verdict("high")

    def asked(prediction: Prediction | None, *, judged: bool = True) -> tuple[Asked, ...]:
        found = replace(report, prediction=prediction, judged=judged)
        monkeypatch.setattr(diagnosis, "judge", lambda run, **options: found)
        told = whyidle.diagnose(["x"], what_if=FOUND).prediction
        assert told is not None
        return told.asked

    assert asked(None) == (Asked((FOUND,), None, "this recording was not replayed"),)
    assert asked(None, judged=False) == (Asked((FOUND,), None, "the recording cannot be judged"),)
    assert asked(Prediction(refused="too few steps")) == (Asked((FOUND,), None, "too few steps"),)
    given = (Asked((FOUND,), None, "no edit"),)
    assert asked(Prediction(asked=given)) == given


def test_asked_and_refused_in_json(options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace.json", "--what-if", FOUND, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["prediction"]
    assert found["asked"] == [{"rules": [FOUND], "predicted": None, "why_not": "this recording was not replayed"}]
