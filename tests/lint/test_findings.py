"""From a file to findings, said once and in order; and from many files to a report, in one process or several."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import active_children, get_start_method
from pathlib import Path

import pytest

import whyidle
from tests.lint.checks import CHECKS, Loaders, Reads
from whyidle.errors import WhyIdleError
from whyidle.lint import batch, checks, findings, lint, settings
from whyidle.lint.findings import Said, linted, once
from whyidle.lint.parsing import parsed
from whyidle.lint.project import Project
from whyidle.lint.source import Source
from whyidle.model.finding import Finding, Location, Report

JOB = """\
import torch
from torch.utils.data import DataLoader

def train(model, optimizer, data):
    for step, batch in enumerate(DataLoader(data)):
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()
        total = loss.item()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for module in (findings, settings):
        monkeypatch.setattr(module, "all_checks", lambda: CHECKS)
    return tmp_path


def source(text: str, name: str = "train.py") -> Source:
    found = parsed(text.encode(), Path(name), name)
    assert isinstance(found, Source), found
    return found


def places(report: Report) -> list[tuple[str, int | None, str]]:
    return [(f.locations[0].file, f.locations[0].line, f.severity) for f in report.findings]


def lines(text: str, *asked: type[checks.Check]) -> list[int | None]:
    found = linted(source(text), Project(), asked or CHECKS)
    return [one.finding.locations[0].line for one in found]


# One file


def test_a_finding_says_what_its_check_says() -> None:
    (one,) = linted(source(JOB), Project(), [Reads])
    assert (one.check, one.finding.rule, one.finding.severity) == ("sync.made_up_read", "sync.scalar_read", "medium")
    assert one.finding.lost_share is None
    assert one.finding.locations == (Location("train.py", 9, 17, "        total = loss.item()"),)
    (fix,) = one.finding.fixes
    assert (fix.title, fix.change, fix.patch and fix.patch.safe, fix.patch and fix.patch.note) == (
        "Keep the tensor", "x", True, "a tensor stays",
    )  # fmt: skip
    (loader,) = linted(source(JOB), Project(), [Loaders])
    assert (loader.finding.locations[0].line, loader.finding.fixes) == (5, ())


def test_columns_count_characters_from_1() -> None:
    text = JOB.replace("total = loss.item()", "größe = 'é'; total = loss.item()")
    (one,) = linted(source(text), Project(), [Reads])
    assert one.finding.locations[0].column == len("        größe = 'é'; total = ") + 1


def test_a_file_that_is_about_something_else_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "ask", lambda *given: pytest.fail("followed"))
    assert linted(source("x.item()\n"), Project(), CHECKS) == []
    assert linted(source(f"# whyidle: ignore-file\n{JOB}"), Project(), CHECKS) == []


def found(
    check: str, line: int, severity: str = "low", confidence: float = 0.5, column: int = 1, file: str = "a"
) -> Said:
    return Said(Finding("r.x", severity, confidence, "", None, locations=(Location(file, line, column),)), check)  # type: ignore[arg-type]


def test_the_same_is_said_once_as_strongly_as_it_ever_was() -> None:
    weak, strong, sure = found("c", 1), found("c", 1, "medium"), found("c", 1, "medium", 0.9)
    assert once([weak, strong, sure, strong]) == [sure]
    assert once([weak, found("d", 1, confidence=0.7)]) == [found("d", 1, confidence=0.7)]
    assert once([weak, weak, found("d", 1)]) == [weak]  # as strong: who came first


def test_two_places_of_one_line_are_two_findings_and_so_are_two_rules() -> None:
    other = found("d", 1)
    other = replace(other, finding=replace(other.finding, rule="r.y"))
    assert once([found("c", 1, column=9), found("c", 1), other]) == [found("c", 1), other, found("c", 1, column=9)]


def test_order_is_severity_then_file_then_line() -> None:
    ones = [found("c", 2, "medium", file="b"), found("c", 9, "medium"), found("c", 10, "medium"), found("c", 1)]
    assert once(reversed(ones)) == [ones[1], ones[2], ones[0], ones[3]]


# Comments


@pytest.mark.parametrize(
    "comment",
    ["ignore", "ignore[all]", "ignore[sync]", "ignore[sync.scalar_read]", "ignore[input, sync.made_up_read]"],
)
def test_a_line_that_is_not_to_be_judged(comment: str) -> None:
    text = JOB.replace("loss.item()", f"loss.item()  # whyidle: {comment}")
    assert lines(text) == [5]


@pytest.mark.parametrize("comment", ["ignore[input]", "ignore[sync.made_up_print]", "ignore[scalar_read]"])
def test_a_comment_that_means_something_else(comment: str) -> None:
    text = JOB.replace("loss.item()", f"loss.item()  # whyidle: {comment}")
    assert lines(text) == [5, 9]


def test_a_comment_counts_in_the_first_line_of_its_statement() -> None:
    long = JOB.replace("total = loss.item()", "total = max(  # whyidle: ignore\n            loss.item(),\n        )")
    assert lines(long) == [5]
    loop = JOB.replace("enumerate(DataLoader(data)):", "enumerate(DataLoader(data)):  # whyidle: ignore")
    assert lines(loop) == [9]  # of a loop, its head
    caught = JOB.replace(
        "        total = loss.item()\n", "        try:\n            pass\n        except ValueError:\n"
    )
    caught += "            total = (  # whyidle: ignore\n                loss.item())\n"
    assert lines(caught) == [5]


def test_a_comment_for_the_file() -> None:
    assert lines(f"# whyidle: ignore-file[sync]\n{JOB}") == [6]


def test_a_comment_that_names_no_check_is_told() -> None:
    comment = "loss.item()  # whyidle: ignore[sync.scalarread, input]"
    Path("train.py").write_text("# whyidle: ignore-file[lint]\n" + JOB.replace("loss.item()", comment), "utf-8")
    report = lint("train.py")
    assert places(report) == [("train.py", 6, "medium"), ("train.py", 10, "medium")]
    of_file, of_line = report.warnings
    assert of_file.startswith("train.py: `whyidle: ignore`: no check is called 'lint'; ")
    assert of_line == (
        "train.py:10: `whyidle: ignore`: no check is called 'sync.scalarread'; did you mean sync.scalar_read?"
    )


# Deep code


def test_long_chains_are_followed() -> None:
    chain = " + ".join(["loss"] * 700)
    assert 9 in lines(JOB.replace("total = loss.item()", f"total = ({chain}).item()"), Reads)


def test_what_nests_too_deeply_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def deeper(*given: object) -> list[object]:
        return deeper(*given)

    Path("train.py").write_text(JOB, "utf-8")
    monkeypatch.setattr(findings, "ask", deeper)
    report = lint("train.py")
    assert report.warnings == ("train.py: nests deeper than we follow",)
    assert not report.judged


# Many files


def project(count: int) -> None:
    """Write a project of so many jobs, all of which call one function."""
    Path("shared").mkdir()
    Path("shared/__init__.py").write_text("", "utf-8")
    Path("shared/read.py").write_text("import torch\n\ndef read(loss):\n    return loss.item()\n", "utf-8")
    for number in range(count):
        text = JOB.replace("total = loss.item()", "total = read(loss)")
        Path(f"train{number:03}.py").write_text(f"from shared.read import read\n{text}", "utf-8")


def test_what_is_found_by_way_of_several_files_is_said_once() -> None:
    project(3)
    report = lint(".", select="sync")
    assert [place[:2] for place in places(report)] == [("shared/read.py", 4)]
    assert report.summary.verdict == "1 line in 1 of 5 files can stall the GPU."
    assert ("train000.py", 10) in {(place.file, place.line) for place in report.findings[0].locations}


def test_processes_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    project(9)
    Path("broken.py").write_text("if x\n", "utf-8")
    monkeypatch.setattr(batch, "PARALLEL", 2)
    told: list[tuple[int, int]] = []
    alone, several = lint("."), lint(".", jobs=3, progress=lambda *done: told.append(done))
    assert several == alone
    assert told == [(number, 12) for number in range(1, 13)]


def wait_for_ever(*_: object, **__: object) -> None:
    time.sleep(1000)


@pytest.mark.skipif(get_start_method() != "fork", reason="a process that starts anew does not wait for ever")
def test_what_was_started_ends_with_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    project(9)
    monkeypatch.setattr(batch, "PARALLEL", 2)
    monkeypatch.setattr(batch, "_part", wait_for_ever)
    before = set(active_children())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            lint(".", jobs=2)
    finally:
        signal.signal(signal.SIGALRM, old)
    assert set(active_children()) <= before


def test_files_that_were_read_are_forgotten_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    project(4)
    before = lint(".")
    monkeypatch.setattr(batch, "LINES", 5)
    assert lint(".") == before


@pytest.mark.parametrize(
    ("severities", "files", "says"),
    [
        ([], 1, "No stall visible in 1 file."),
        ([], 1400, "No stall visible in 1,400 files."),
        ([("a", 1, "medium")], 1, "1 line in 1 file can stall the GPU."),
        ([("a", 1, "medium"), ("a", 2, "high"), ("b", 1, "medium")], 14, "3 lines in 2 of 14 files can stall the GPU."),
        ([("a", 1, "medium"), ("a", 1, "low"), ("a", 2, "low")], 1,
         "1 line in 1 file can stall the GPU; 1 more may cost a little."),
        ([("a", 1, "low"), ("a", 2, "low")], 3, "No stall visible in 3 files, but 2 lines that may cost a little."),
        ([], 0, "Cannot judge: no file could be read."),
    ],
)  # fmt: skip
def test_the_answer_in_one_sentence(severities: Sequence[tuple[str, int, str]], files: int, says: str) -> None:
    from whyidle.lint.report import verdict

    given = [found("c", line, severity, file=file).finding for file, line, severity in severities]
    assert verdict(given, files) == says


def test_the_summary_counts_what_was_read() -> None:
    Path("train.py").write_text(JOB, "utf-8")
    Path("a.ipynb").write_text('{"cells": [{"cell_type": "code", "source": "x = 1\\ny = 2"}]}', "utf-8")
    Path("broken.py").write_text("x = 1\nif x\n", "utf-8")
    report = lint([Path("train.py"), "a.ipynb", "broken.py"])
    assert report.summary.source == whyidle.model.finding.SourceSummary(2, 11, unread=1, notebooks=1, fixable=1)
    assert [file.kind for file in report.run.evidence] == ["source", "notebook"]
    assert [file.path for file in report.run.ignored] == ["broken.py"]
    assert report.warnings[0].startswith("broken.py: line 2: expected ':'")
    assert report.exit_code == 1


def test_a_finding_in_a_notebook_names_its_cell() -> None:
    import json

    cells = [{"cell_type": "code", "source": text} for text in ("%matplotlib inline", JOB)]
    Path("a.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    (finding,) = lint("a.ipynb", select="sync").findings
    assert finding.locations[0] == Location("a.ipynb", 10, 17, "        total = loss.item()", name="cell 2, line 9")


def test_lint_is_public() -> None:
    Path("train.py").write_text(JOB, "utf-8")
    assert whyidle.lint("train.py", ignore="input") == lint(["train.py"], select=["sync"])
    with pytest.raises(WhyIdleError, match="no such file"):
        whyidle.lint("nowhere.py")


def test_what_a_file_defines_is_never_run() -> None:
    Path("train.py").write_text(f"{JOB}\nopen('run', 'w')\nraise SystemExit(3)\n", "utf-8")
    lint("train.py")
    assert not Path("run").exists()
