from __future__ import annotations

import json
from pathlib import Path

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
    today = found["today"]
    assert (today["busy"], today["hours"], today["usd"], today["idle_usd"]) == (0.4, 24.0, 499.20, 299.52)
    assert found["price_source"] == "your price"


@pytest.mark.parametrize(("busy", "idle_usd"), [("0.40", 299.52), ("0.60", 199.68), ("0.80", 99.84), ("0.95", 24.96)])
def test_a_day_of_eight_gpus(busy: str, idle_usd: float, capsys: pytest.CaptureFixture[str]) -> None:
    """What waiting costs in 24 h of 8 GPUs at $2.60: $499.20 in all."""
    assert main([*ASKED[:-1], busy, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["total_usd"], found["idle_usd"]) == (499.20, idle_usd)


def test_the_same_work_and_what_still_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["table"]
    assert [(row["hours"], row["idle_usd"]) for row in rows] == [(16.0, 133.12), (12.0, 49.92), (10.1053, 10.51)]
    assert {row["usd_per_million_tokens"] for row in rows} == {None}


def test_cost_of_a_million(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    speeds = ["--tokens-per-s", "46,104", "--samples-per-s", "2.5"]
    assert main([*ASKED, *speeds]) == 0
    assert capsys.readouterr().out == snapshot
    assert main([*ASKED, *speeds, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["today"]["usd_per_million_tokens"] == pytest.approx(0.12532, abs=1e-5)
    assert [row["usd_per_million_tokens"] for row in found["table"]] == pytest.approx(
        [0.083547, 0.06266, 0.052766], abs=1e-5
    )
    for speed in ("0", "-1", "nan", "many"):
        assert main([*ASKED, "--tokens-per-s", speed]) == 2


def test_a_unit_of_work_needs_a_price_and_a_speed_only(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cost", "--gpus", "8", "--price", "2.60", "--tokens-per-s", "46104"]
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "  $0.125 per million tokens."
    assert "the same work" not in told
    assert main([*asked, "--busy", "40%"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        ["80%", "$0.0627"],
        ["95%", "$0.0528"],
    ]
    assert main([*asked, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["hours"], found["busy"], found["total_usd"], found["idle_usd"], found["table"]) == (None,) * 4 + ([],)


def test_without_a_busy_share_nothing_is_said_of_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--gpus", "8", "--price", "2.60", "--hours", "24"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "  $499.20 in all."


@pytest.mark.parametrize("given", [[], ["--busy", "40%"], ["--price", "2.60", "--gpus", "8"]])
def test_what_a_bill_needs_is_said_at_once(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", *given]) == 2
    assert "hint: --price 2.60 --hours 24, or --price 2.60 --tokens-per-s 46104" in capsys.readouterr().err


def test_no_bill_is_wider_than_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--tokens-per-s", "46104", "--samples-per-s", "2.5"]) == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80


@pytest.mark.parametrize(
    "numbers",
    [
        ["--price", "2,60"],  # as half of Europe writes 2.60: it is not 260
        ["--hours", "1,5"],
        ["--busy", "0,4"],
        ["--gpus", "8.5"],
        ["--gpus", "9" * 400],
        ["--gpus", "inf"],
        ["--price", "1e300"],
        ["--tokens-per-s", "1e-320"],
    ],
)
def test_numbers_that_cannot_be(numbers: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, *numbers]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "hint: " in shown.err


def test_thousands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--gpus", "1,000", "--price", "$1,002.60", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_usd"] == 24 * 1000 * 1002.60


def test_the_price_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["cost", "--gpus", "8", "--hours", "24", "--busy", "0.40"]
    assert main(asked) == 2
    assert "what does a GPU cost?" in capsys.readouterr().err
    Path("pyproject.toml").write_text("[tool.whyidle]\nusd-per-gpu-hour = 2.60\n", "utf-8")
    assert main(asked) == 0
    assert "$499.20 in all" in (told := capsys.readouterr().out)
    assert "price: pyproject.toml" in told
    assert main([*asked, "--price", "1"]) == 0
    assert "price: your price" in capsys.readouterr().out
    assert main([*asked, "--gpu", "H100 SXM"]) == 0
    assert "list price" in capsys.readouterr().out
    Path("pyproject.toml").write_text("[tool.whyidle]\nusd-per-gpu-hour = -1\n", "utf-8")
    assert main(asked) == 2
    assert "usd-per-gpu-hour is US dollars, 0 or more" in capsys.readouterr().err


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
