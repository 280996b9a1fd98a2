"""What a person sees of `whyidle lint`, whole: read the snapshots as the pictures that they are."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.render import linted
from whyidle.model.finding import Finding, Location
from whyidle.render import render
from whyidle.render.excerpt import excerpt, span
from whyidle.render.places import spots

MAKE = [linted.linted, linted.much_linted, linted.clean_source]


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("make", MAKE)
def test_picture(make: Any, width: int, snapshot: SnapshotAssertion) -> None:
    text = render(make(), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= 36
    assert text == snapshot


def test_everything(snapshot: SnapshotAssertion) -> None:
    assert render(linted.linted(), width=80, everything=True) == snapshot


def test_everything_is_all_of_it() -> None:
    report = linted.much_linted()
    text = render(report, everything=True)
    assert text.count(" | ") == 2 * len(report.findings)
    assert "--all" not in text


def test_ascii(snapshot: SnapshotAssertion) -> None:
    text = render(linted.linted(), width=80, unicode=False)
    assert text.isascii()
    assert text == snapshot


def test_color(snapshot: SnapshotAssertion) -> None:
    assert render(linted.linted(), width=80, color=True) == snapshot


@pytest.mark.parametrize("make", MAKE)
def test_color_changes_nothing_but_color(make: Any) -> None:
    plain, colored = render(make()), render(make(), color=True)
    assert re.sub(r"\x1b\[[\d;]*m| +$", "", colored, flags=re.M) == re.sub(r" +$", "", plain, flags=re.M)


def test_where_nothing_is_found_there_is_one_line() -> None:
    assert render(linted.clean_source()).split("  ")[1] == "No line of these can stall the GPU."
    assert len(render(linted.clean_source()).splitlines()) == 1


@pytest.mark.parametrize("count", [1, 7, 40, 400])
def test_any_number_fits_a_screen(count: int) -> None:
    report = linted.linted()
    finding = replace(report.findings[0], message="What stalls, and in which circumstances it does so. " * 3)
    rules = [f"family.problem{n % 37}" for n in range(count)]
    findings = tuple(replace(finding, rule=rule) for rule in rules)
    lines = render(replace(report, findings=findings, warnings=("one",) * 9), width=80).splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "  whyidle explain RULE: why, and when to ignore it; --all: everything"


@pytest.mark.parametrize("depth", [1, 6, 11, 12, 13, 30])
def test_long_paths_are_whole_where_there_is_room(depth: int) -> None:
    report = linted.linted()
    path = "folder/" * depth + "train.py"
    findings = tuple(
        replace(finding, locations=(replace(finding.locations[0], file=path),)) for finding in report.findings
    )
    text = render(replace(report, findings=findings), width=80)
    assert f"  {path}:41:20" in text
    assert all(len(line) <= 80 or line.startswith(f"  {path}:") for line in text.splitlines())
    assert text.count("train.py:35:18") == 1


def test_what_a_run_measured_is_told() -> None:
    report = linted.linted()
    finding = replace(report.findings[0], lost_share=0.12)
    assert "sync.scalar_read  costs 12% · [fixable]" in render(replace(report, findings=(finding,)))


def test_how_sure_it_is_is_told_where_it_is_not() -> None:
    report = linted.linted()
    for confidence, said in ((0.9, "can stall · [fixable]"), (0.7, "can stall · likely ·"), (0.5, "perhaps ·")):
        finding = replace(report.findings[0], confidence=confidence)
        assert said in render(replace(report, findings=(finding,)))


def test_what_a_file_holds_controls_no_terminal() -> None:
    report = linted.linted()
    place = Location("a\x1b[31m.py", 3, 2, "\tx = '\x1b]0;title\x07\x9b31m'; y\u202e\n")
    finding = replace(report.findings[0], message="\x1b[2Jgone", locations=(place,))
    text = render(replace(report, findings=(finding,)))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def drawn(line: str, column: int | None, width: int = 60) -> list[str]:
    return [text.plain for text in excerpt(Location("a.py", 7, column, line), width)]


def test_the_expression_is_underlined() -> None:
    assert drawn("        total += loss.item()  # mean", 18) == [
        "     7 | total += loss.item()  # mean",
        "       |          ^^^^^^^^^^^",
    ]
    assert drawn("\t\tx.item()", 3) == ["     7 | x.item()", "       | ^^^^^^^^"]
    assert drawn("  x.item()", None) == ["     7 | x.item()"]
    assert drawn("", 1) == []


def test_a_long_line_shows_what_is_meant() -> None:
    line = "    " + "something = somewhere + " * 20 + "loss.item() + more"
    code, under = drawn(line, line.index("loss") + 1)
    assert "loss.item()" in code
    assert code[under.index("^") :].startswith("loss.item()")
    assert len(code) <= 60
    code, under = drawn("call(" + "argument, " * 20 + ")", 1)
    assert (len(code), len(under)) == (60, 60)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("loss.item() + 1", "loss.item()"),
        ("float(loss), other", "float(loss)"),
        ('f"{loss:.3f}" % 1', 'f"{loss:.3f}"'),
        ("'it\\'s (' + x", "'it\\'s ('"),
        ("x[mask].sum())", "x[mask].sum()"),
        ("DataLoader(  # of images", "DataLoader("),
        ("DataLoader(data,", "DataLoader(data,"),
        ("for batch in loader:", "for"),
        ("-loss", "-"),
        ("'unfinished", "'unfinished"),
    ],
)
def test_how_far_an_expression_goes(line: str, meant: str) -> None:
    assert line[: span(line, 0)] == meant


@given(st.text(), st.integers(1, 200), st.integers(40, 120))
def test_any_line_can_be_drawn(line: str, column: int, width: int) -> None:
    for row in drawn(line, column, width):
        assert "\n" not in row


def test_a_notebook_has_cells() -> None:
    text = render(linted.notebook())
    assert "  study.ipynb, cell 3, line 5  sync.scalar_read" in text
    assert "     5 | loss.item()" in text


def test_more_lines_of_a_notebook_read_as_those_of_a_file() -> None:
    places = [
        Location("study.ipynb", 7, 1, "", name="cell 3, line 5"),
        Location("study.ipynb", 9, 1, "", name="cell 4, line 1"),
        Location("train.py", 3, 1, ""),
        Location("train.py", 4, 1, ""),
    ]
    assert spots(places) == "study.ipynb cell 3 line 5, cell 4 line 1, train.py:3, 4"


def test_a_minor_finding_is_told_in_the_words_of_the_headline() -> None:
    assert "may cost a little" in full(replace(linted.READ, severity="low"))
    assert "can stall" in full(linted.READ)


def full(finding: Finding) -> str:
    """Return a report on it without its headline."""
    report = replace(linted.linted(), findings=(finding,))
    return render(report, width=100, everything=True).split("\n", 1)[1]
