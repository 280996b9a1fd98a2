"""JUnit's XML: well-formed whatever a file holds, and it fails where the exit code does."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.render import linted
from whyidle.model.finding import Location, Report
from whyidle.render import render


def suite(report: Report) -> ET.Element:
    text = render(report, "junit")
    whole = ET.fromstring(text.encode("utf-8"))
    (only,) = whole
    assert whole.tag == "testsuites"
    assert whole.attrib == only.attrib
    return only


def test_one_case_per_finding() -> None:
    found = suite(linted.linted())
    assert found.attrib == {"name": "whyidle", "tests": "6", "failures": "3", "errors": "0", "skipped": "1"}
    first, *_, unread = found
    assert first.attrib == {
        "classname": "sync.scalar_read", "name": "train.py:41:20", "file": "train.py", "line": "41",
    }  # fmt: skip
    (failure,) = first
    assert failure.get("message", "").startswith("`loss.item()` reads")
    assert "    if step % 100 == 0:" in (failure.text or "")
    assert [part.tag for part in unread] == ["skipped"]


@pytest.mark.parametrize("name", ["one_finding", "many", "healthy", "not_judged", "watched_cpu"])
def test_it_fails_where_the_exit_code_does(name: str, request: pytest.FixtureRequest) -> None:
    report = request.getfixturevalue(name)
    found = suite(report)
    assert (found.get("failures") != "0") == (report.exit_code == 1)
    assert (found.get("errors") != "0") == (report.exit_code == 2)


def test_where_all_is_well_one_case_passes(healthy: Report) -> None:
    for report in (linted.clean_source(), healthy):
        (case,) = suite(report)
        assert list(case) == []
        assert case.get("name") == report.summary.verdict


@settings(deadline=None)
@given(st.text(), st.text(min_size=1))
def test_any_text_makes_xml(message: str, path: str) -> None:
    report = linted.linted()
    finding = replace(report.findings[0], message=message, locations=(Location(path, 1, 1, message),))
    assert len(suite(replace(report, findings=(finding,)))) == 2


def test_markup_is_text() -> None:
    report = linted.linted()
    finding = replace(report.findings[0], message='<a> & "b" ]]>', fixes=())
    case = suite(replace(report, findings=(finding,)))[0]
    assert case[0].get("message") == '<a> & "b" ]]>'
    assert (case[0].text or "").strip() == '<a> & "b" ]]>'


def test_ascii() -> None:
    report = linted.linted()
    finding = replace(report.findings[0], message="für")
    text = render(replace(report, findings=(finding,)), "junit", unicode=False)
    assert text.isascii()
    assert "f&#252;r" in text


def test_a_notebook_has_cells_and_no_lines() -> None:
    (case,) = suite(linted.notebook())
    assert case.get("name") == "study.ipynb, cell 3, line 5"
    assert case.get("line") is None
