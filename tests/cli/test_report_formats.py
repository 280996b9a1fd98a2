"""By what a verb decides how its report is written: what was asked for, else the name of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.cli._destination import SUFFIXES, format_of
from whyidle.errors import WhyIdleError
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
        ("job.log", None, "terminal"),
        ("report", None, "terminal"),
        ("report.html", "json", "json"),  # what was asked for counts
        ("html", None, "terminal"),
    ],
)
def test_a_file_says_its_format_by_its_name(file: str | None, asked: str | None, chosen: str) -> None:
    assert format_of(None if file is None else Path(file), asked) == chosen


@pytest.mark.parametrize("name", ["report.sarif", "report.pdf", "report.v2"])
def test_a_name_of_a_format_that_a_verb_does_not_write_is_refused(name: str) -> None:
    with pytest.raises(WhyIdleError) as told:
        format_of(Path(name), among={"json", "html", "terminal"})
    assert told.value.hint == "a name that ends in .json, .html, .htm or .txt; --format FORMAT writes to any"
    assert format_of(Path(name), "json", among={"json", "html"}) == "json"
    assert format_of(Path("report.html"), among={"json", "html"}) == "html"


def test_every_suffix_is_of_a_format_that_is_written() -> None:
    assert set(SUFFIXES.values()) - {"markdown"} <= set(renderers())
