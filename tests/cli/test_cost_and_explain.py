from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle.cli import main
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


def test_cost_at_a_list_price_says_whose(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["cost", "--gpu", "h100", "--hours", "24", "--busy", "0.97"]) == 0
    assert capsys.readouterr().out == snapshot


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_has_a_page(rule: type, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", rule.id]) == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 100
    assert page.strip().startswith(rule.id)
    words = " ".join(page.split())
    for value in vars(rule).values():
        if isinstance(value, Threshold):
            assert f"{float(value):g} {value.unit}" in words


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {rule.id} " in listed for rule in all_rules())


def test_a_typo_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    for typo in ("workers_zero", "input.worker_zero", "INPUT.WORKERS_ZERO"):
        assert main(["explain", typo]) == 2
        assert "did you mean input.workers_zero" in capsys.readouterr().err
