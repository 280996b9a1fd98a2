"""By what a verb decides how its report is written: what was asked for, else the name of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.cli._destination import SUFFIXES, format_of
from whyidle.render import renderers


@pytest.mark.parametrize(
    ("file", "asked", "chosen"),
    [
        (None, None, "terminal"),
        (None, "json", "json"),
        ("report.html", None, "html"),
        ("REPORT.HTML", None, "html"),
        ("report.md", None, "markdown"),
        ("report.txt", None, "terminal"),
        ("report", None, "terminal"),
        ("report.html", "json", "json"),  # what was asked for counts
        ("html", None, "terminal"),
    ],
)
def test_a_file_says_its_format_by_its_name(file: str | None, asked: str | None, chosen: str) -> None:
    assert format_of(None if file is None else Path(file), asked) == chosen


def test_a_verb_that_does_not_write_a_format_writes_text() -> None:
    assert format_of(Path("report.sarif"), among={"json", "html"}) == "terminal"
    assert format_of(Path("report.html"), among={"json", "html"}) == "html"


def test_every_suffix_is_of_a_format_that_is_written() -> None:
    assert set(SUFFIXES.values()) - {"markdown"} <= set(renderers())
