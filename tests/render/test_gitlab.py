"""GitLab's Code Quality report: what its format asks for, of source and of recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.render import linted
from whyidle.model.finding import Finding, Report
from whyidle.render import render


def issues(report: Report) -> Any:
    return json.loads(render(report, "gitlab"))


def test_one_issue_per_finding() -> None:
    first, *_, last = issues(linted.linted())
    assert first["check_name"] == "sync.scalar_read"
    assert first["description"].startswith("`loss.item()` reads a value back from the GPU in every step: ")
    assert first["severity"] == "major"
    assert first["location"] == {"path": "train.py", "lines": {"begin": 41}}
    assert last["severity"] == "minor"


def test_fingerprints_tell_findings_apart() -> None:
    found = issues(linted.much_linted())
    assert len({issue["fingerprint"] for issue in found}) == len(found) == 51


@pytest.mark.parametrize("name", ["one_finding", "many", "healthy", "not_judged"])
def test_all_that_the_format_asks_for_is_there(name: str, request: pytest.FixtureRequest) -> None:
    report = request.getfixturevalue(name)
    found = issues(report)
    assert len(found) == len(report.findings)
    for issue in found:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert issue["location"]["path"]
        assert issue["location"]["lines"]["begin"] >= 1


def test_a_finding_without_a_place_is_one_of_the_recording(one_finding: Report) -> None:
    finding = Finding("host.numa", "low", 0.5, "A message.", 0.03)
    (issue,) = issues(replace(one_finding, findings=(finding,)))
    assert issue["location"] == {"path": "runs/resnet50/trace.json.gz", "lines": {"begin": 1}}


def test_a_clean_report_is_an_empty_list() -> None:
    assert issues(linted.clean_source()) == []


def test_a_notebook_has_cells_and_no_lines() -> None:
    (issue,) = issues(linted.notebook())
    assert issue["location"] == {"path": "study.ipynb", "lines": {"begin": 1}}
    assert issue["description"].startswith("cell 3, line 5: ")
