from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle.cli import main
from whyidle.model.finding import CAUSES, GROUPS
from whyidle.render.bars import MEANINGS
from whyidle.render.page import NO_RULE_YET
from whyidle.render.problems import Problem, known
from whyidle.rules import all_rules
from whyidle.rules.base import Threshold

ASKED = ["cost", "--gpus", "8", "--price", "2.60", "--hours", "24", "--busy", "0.40"]


def test_cost(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(ASKED) == 0
    assert capsys.readouterr().out == snapshot


def test_cost_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["total_usd"], found["idle_usd"]) == (499.20, 299.52)
    assert [(row["busy"], row["usd"]) for row in found["table"]] == [(0.6, 332.80), (0.8, 249.60), (0.95, 210.19)]
    assert found["today"] == {"busy": 0.4, "hours": 24.0, "usd": 499.20}
    assert found["price_source"] == "your price"


def test_numbers_as_people_type_them(capsys: pytest.CaptureFixture[str]) -> None:
    main(ASKED)
    plain = capsys.readouterr().out
    assert main(["cost", "--gpus", "8", "--price", "$2.60", "--hours", "24h", "--busy", "40%"]) == 0
    assert capsys.readouterr().out == plain


def test_cost_at_a_list_price_says_whose(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["cost", "--gpu", "h100 sxm", "--hours", "24", "--busy", "0.97"]) == 0
    assert capsys.readouterr().out == snapshot


@pytest.mark.parametrize("problem", known().values(), ids=lambda problem: problem.id)
def test_every_problem_has_a_page(problem: Problem, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", problem.id]) == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 100
    assert page.strip().startswith(problem.id)
    words = " ".join(page.split())
    for value in vars(problem.rule).values() if problem.rule is not None else ():
        if isinstance(value, Threshold):
            assert f"{float(value):g} {value.unit}" in words
    assert all(f"({check.name})" in words for check in problem.beside)


def test_all_problems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in known())


def test_a_typo_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    for typo in ("workers_zero", "input.worker_zero", "INPUT.WORKERS_ZERO"):
        assert main(["explain", typo]) == 2
        assert "did you mean input.workers_zero" in capsys.readouterr().err


def test_what_to_change_stands_before_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "input.workers_zero"]) == 0
    page = capsys.readouterr().out
    heads = ("Why it costs time", "How we know", "What to change", "When to ignore it", "The numbers behind it")
    places = [page.index(head) for head in heads]
    assert places == sorted(places)
    assert "DataLoader(..., num_workers=" in page


@pytest.mark.parametrize("name", ["host dispatch", "dispatch", "Launch_Latency", *CAUSES])
def test_every_cause_of_idle_time_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *name.split()]) == 0
    assert "  causes  " in capsys.readouterr().out


def test_every_label_has_a_meaning() -> None:
    assert set(MEANINGS) == set(GROUPS)
    assert sorted(cause for causes in GROUPS.values() for cause in causes) == sorted(CAUSES)


def test_everything_that_a_finding_may_also_be_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    named = {
        candidate
        for rule in all_rules()
        for case in rule.cases
        if case.fires
        for finding in rule().diagnose(case.measurements())
        for candidate in finding.candidates
    }
    assert named <= set(known()) | set(NO_RULE_YET)
    assert not set(known()) & set(NO_RULE_YET)
    for name in NO_RULE_YET:
        assert main(["explain", name]) == 0
        assert "no rule yet" in capsys.readouterr().out
