"""The arithmetic of the board of curves, on truths and findings that are written here."""

from __future__ import annotations

from typing import Any

import pytest

from scoring.curves import NOTHING, Outcome, score
from whyidle.model.finding import Finding


def finding(rule: str, lost: float | None = 0.3, confidence: float = 0.5, *candidates: str) -> Finding:
    grave = "high" if (lost or 0.1) >= 0.2 else "medium"
    return Finding(rule, grave, confidence, "", lost, candidates=candidates)


def outcome(*findings: Finding, error: str = "", **true: Any) -> Outcome:
    truth = {
        "name": "0000-job", "kind": "long_steps", "primary": "curve.sawtooth", "cause": "input.workers_too_few",
        "accepted": ["curve.sawtooth", "curve.correlated_dips"], "asked": 0.3,
        "shapes": {"curve.sawtooth": 0.3, "curve.startup": 0.001},
    }  # fmt: skip
    return Outcome(truth | true, findings, not findings, True, 0.01, 0.1, error)


WELL: dict[str, Any] = {"primary": None, "cause": None, "accepted": [], "asked": 0.0, "shapes": {"curve.startup": 0.01}}


def test_the_shape_is_the_one_in_which_most_is_lost() -> None:
    said = outcome(finding("curve.flat_low", 0.1), finding("curve.sawtooth", 0.3))
    assert (said.shape, said.is_right) == ("curve.sawtooth", True)
    assert not outcome(finding("curve.flat_low", 0.3), finding("curve.sawtooth", 0.1)).is_right


def test_a_shape_that_is_right_too_counts_as_the_true_one() -> None:
    board = score([outcome(finding("curve.correlated_dips"))])
    assert (board.shape.ratio, board.confusion["curve.sawtooth"]) == (1.0, {"curve.sawtooth": 1})


def test_nothing_said_is_wrong_and_a_refusal_is_a_miss() -> None:
    board = score([outcome(), outcome(error="not read")])
    assert (board.shape.hits, board.shape.n) == (0, 2)
    assert board.confusion["curve.sawtooth"] == {NOTHING: 2}
    assert len(board.refused) == 1


def test_mild_jobs_do_not_count_for_the_shape() -> None:
    board = score([outcome(asked=0.1), outcome(finding("curve.sawtooth"), asked=0.2)])
    assert (board.shape.hits, board.shape.n) == (1, 1)
    assert sorted(board.by_severity) == [0.1, 0.2]


def test_a_cause_is_a_finding_or_a_candidate() -> None:
    named = outcome(finding("curve.sawtooth", 0.3, 0.5, "input.storage", "input.workers_too_few"))
    near = outcome(finding("curve.sawtooth", 0.3, 0.5, "input.storage"))
    board = score([named, near])
    assert (board.cause.hits, board.family.hits) == (1, 2)


def test_findings_on_healthy_jobs_are_false() -> None:
    board = score([outcome(finding("curve.flat_low"), **WELL), outcome(**WELL)])
    assert board.false_on_healthy == ("0000-job: curve.flat_low",)
    assert board.false_high == ("0000-job: curve.flat_low",)
    assert board.healthy.ratio == pytest.approx(0.5)


def test_a_shape_that_is_there_besides_is_no_false_finding() -> None:
    shapes = {"curve.sawtooth": 0.3, "curve.startup": 0.05}
    said = outcome(finding("curve.sawtooth"), finding("curve.startup", 0.05), shapes=shapes)
    assert said.false == ()


def test_confidence_is_held_against_what_is_there() -> None:
    right, wrong = finding("curve.sawtooth", 0.3, 0.55), finding("curve.hollow", None, 0.55)
    board = score([outcome(right), outcome(wrong)])
    part = board.calibration[-1]
    assert (part.right.hits, part.right.n, part.said) == (1, 2, pytest.approx(0.55))
    assert board.confidence_max == 0.55
