"""What a person reads in the lower half of the page, and that its links lead somewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.render import linted
from tests.render.html.markup import Page
from tests.render.html.reports import finding, full
from whyidle.model.finding import Ended, Report, RunInfo, Summary, Unknown
from whyidle.model.picture import Picture
from whyidle.render import render
from whyidle.render.html.prose import prose
from whyidle.render.html.sections import method, settings, source, tables, timeline, unknown, warnings
from whyidle.render.problems import docstring, known
from whyidle.render.rows import Row, Table
from whyidle.rules import all_rules

SECTIONS = {
    module.__name__.rpartition(".")[2]: module for module in (method, settings, source, tables, unknown, warnings)
}
EMPTY = Report(RunInfo(), Summary("Healthy."))


def text_of(section: Any) -> str:
    page = Page(section.html)
    assert page.faults == []
    return f"{section.id} | {section.title} | {page.read}"


@pytest.mark.parametrize("name", SECTIONS)
def test_what_a_section_says(name: str, snapshot: Any) -> None:
    report = replace(full(), findings=(finding(), finding("curve.sawtooth", locations=(), candidates=())))
    said = text_of(SECTIONS[name].section(report))  # type: ignore[attr-defined]
    assert said.split(" Why it costs time ")[0] == snapshot


@pytest.mark.parametrize("name", sorted(SECTIONS.keys() - {"method"}))
def test_a_section_with_nothing_to_say_is_not_there(name: str) -> None:
    assert SECTIONS[name].section(EMPTY) is None  # type: ignore[attr-defined]


def test_without_a_picture_the_page_says_how_to_get_the_timeline() -> None:
    told = timeline.section(replace(full(), picture=None))
    assert told is not None
    assert "picture=True" in told.html
    assert "data-island" not in told.html
    assert "data-island" in timeline.section(full()).html  # type: ignore[union-attr]
    assert timeline.section(replace(full(), picture=Picture())) is None
    assert timeline.section(EMPTY) is None


def test_a_lint_report_is_a_page_of_its_own(snapshot: Any) -> None:
    page = Page(render(linted.linted(), "html"))
    assert page.faults == []
    assert page.read.partition(" Why it costs time ")[0] == snapshot
    assert {link[1:] for link in page.links} <= {*page.ids}


def test_every_rule_that_is_named_has_its_note() -> None:
    named = ("input.workers_zero", "dist.pcie_topology")
    page = Page(method.section(replace(full(), findings=(finding(candidates=named), finding("no.such_rule")))).html)
    assert {f"rule-{rule}" for rule in named} <= {*page.ids}
    assert "rule-no.such_rule" not in page.ids
    assert page.read.count("Found here: finding 1") == 1


def test_a_rule_that_becomes_the_limit_has_its_note() -> None:
    report = replace(full(), findings=(), cleared=())
    assert "rule-host.launch_bound" in Page(method.section(report).html).ids


@pytest.mark.parametrize("rule", sorted(known()))
def test_the_note_of_every_rule_is_sound(rule: str) -> None:
    page = Page(method.section(replace(EMPTY, findings=(finding(rule, candidates=()),))).html)
    assert page.faults == []
    assert f"rule-{rule}" in page.ids
    assert page.links == ["#finding-1"]
    assert "](" not in page.read


def test_every_rule_that_was_not_asked_says_what_it_judges() -> None:
    lacking = tuple(Unknown(rule.id, (), f"do `whyidle run {number % 3}`") for number, rule in enumerate(all_rules()))
    page = Page(unknown.section(replace(EMPTY, unknown=lacking)).html)  # type: ignore[union-attr]
    assert page.faults == []
    for rule in all_rules():
        first = docstring(rule).split("\n")[0].replace("`", "")
        assert first.split(":")[0] in page.read


@pytest.mark.parametrize(
    ("how", "commands"),
    [
        ("run the job under `whyidle run`", ("whyidle run -- python train.py",)),
        ("run the job under `whyidle run --workers`", ("whyidle run --workers -- python train.py",)),
        ("look at `whyidle watch --pid PID`", ("whyidle watch --pid PID",)),
        ("record more: `nvidia-smi dmon -o DT > gpu.txt`", ("nvidia-smi dmon -o DT > gpu.txt",)),
        ("record with record_shapes=True", ("whyidle demo --record",)),
        ("give the trainer's own log of its steps, too", ()),
    ],
)
def test_commands_can_be_pasted(how: str, commands: tuple[str, ...]) -> None:
    assert unknown.commands(how) == commands


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Ended(0), "ended with exit code 0"),
        (Ended(None, 9), "was ended by signal 9"),
        (Ended(), "had not ended, or nobody saw how"),
    ],
)
def test_how_a_job_ended(ended: Ended, said: str) -> None:
    assert said in text_of(settings.section(replace(full(), run=replace(full().run, ended=ended))))


def test_a_bar_is_long_as_its_share() -> None:
    rows = (Row(("a",), 0.5), Row(("b",), 0.25), Row(("c",)), Row(("d",), 7.0))
    of_whole, of_most = Table("t", (), rows, "row", of_whole=True), Table("t", (), rows[:2], "row")
    assert [of_whole.length(row) for row in rows] == [0.5, 0.25, 0.0, 1.0]
    assert [of_most.length(row) for row in rows[:2]] == [1.0, 0.5]
    assert Table("t", (), (Row(("a",), 0.0),), "row").length(Row(("a",), 0.0)) == 0.0


def test_more_rows_than_fit_are_folded() -> None:
    page = tables.section(replace(full(), detail=replace(full().detail, curves=full().detail.curves * 20)))
    assert page is not None
    assert "<summary>5 more</summary>" in page.html
    assert Page(page.html).faults == []


def test_docstrings_are_html_without_html_of_theirs() -> None:
    told = prose("a `<b>` [link](there.md) <i>x</i>\n\n## Head\n- one\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    page = Page(told)
    assert page.faults == []
    assert page.links == []
    assert {"h3", "ul", "table", "code"} <= page.elements
    assert not {"i", "b"} & page.elements
    assert "a <b> link <i>x</i>" in page.read
