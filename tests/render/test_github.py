"""Workflow commands of GitHub Actions: one per finding, escaped, and no text of a file becomes one."""

from __future__ import annotations

from dataclasses import replace

from tests.render import linted
from whyidle.model.finding import Location, Report
from whyidle.render import render


def lines(report: Report) -> list[str]:
    return render(report, "github").splitlines()


def test_one_command_per_finding() -> None:
    verdict, *commands, unread = lines(linted.linted())
    assert verdict == "whyidle: 3 lines in 2 of 14 files can stall the GPU."
    assert commands[0].startswith("::warning file=train.py,line=41,col=20,title=sync.scalar_read::`loss.item()` reads ")
    assert commands[0].endswith("%0A    if step %25 100 == 0:%0A        print(running.item() / steps)")
    assert [command.split(" ")[0] for command in commands] == ["::warning"] * 3 + ["::notice"] * 2
    assert unread == "::warning file=old/two.py,title=not read::line 3: Missing parentheses in call to 'print'."


def test_what_is_grave_is_an_error() -> None:
    report = linted.linted()
    report = replace(report, findings=(replace(report.findings[0], severity="high"),))
    assert lines(report)[1].startswith("::error file=")


def test_a_finding_of_a_recording_has_no_file(one_finding: Report) -> None:
    assert lines(one_finding)[1].startswith("::error title=input.workers_zero::The DataLoader loads")


def test_a_clean_report_is_one_line_without_a_command(healthy: Report) -> None:
    assert lines(linted.clean_source()) == ["whyidle: No line of these can stall the GPU."]
    assert len(lines(healthy)) == 1


def test_what_a_file_holds_is_escaped() -> None:
    report = linted.linted()
    finding = replace(
        report.findings[0],
        message="100% of\r\n::error::it\x1b[31m.",
        locations=(Location("a,b:c\n::error::d%.py", 1, 2, "x"),),
        fixes=(),
    )
    verdict = replace(report.summary, verdict="1 line\n::error::in it")
    told = lines(replace(report, findings=(finding,), run=replace(report.run, ignored=()), summary=verdict))
    assert told == [
        "whyidle: 1 line ::error::in it",
        "::warning file=a%2Cb%3Ac %3A%3Aerror%3A%3Ad%25.py,line=1,col=2,title=sync.scalar_read::100%25 of ::error::it.",
    ]


def test_a_notebook_has_cells_and_no_lines() -> None:
    _, command = lines(linted.notebook())
    assert command.startswith("::warning file=study.ipynb,title=sync.scalar_read::cell 3, line 5: `loss.item()`")
