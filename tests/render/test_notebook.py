"""What a notebook shows of a report: complete without style sheets and scripts, and harmless whatever a file holds."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.render.linted import linted
from tests.render.test_comparison import FOUND
from whyidle.model.finding import Fix, Report
from whyidle.model.picture import Picture
from whyidle.render.notebook import shown

EVIL = "</script><img src=x onerror=alert(1)>\x1b[31m\"'{{ 7 * 7 }}`"
FIXTURES = ["one_finding", "many", "ranks", "healthy", "not_judged", "predicted", "watched_cpu", "watched_gpu"]


class Page(HTMLParser):
    """Collects elements, their attributes, and the text between them; each element has to end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in {"br", "pre", "td", "th", "title"}:
            self.text += " "
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", FIXTURES)
def test_below_a_cell(name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    html = shown(request.getfixturevalue(name))
    page = Page(html)
    assert not {"script", "style", "link", "iframe", "img"} & set(page.elements)
    assert not {"class", "id", "href", "src"} & page.attributes
    assert " ".join(page.text.split()) == snapshot


def test_source_and_comparison(snapshot: SnapshotAssertion) -> None:
    for thing in (linted(), FOUND):
        assert " ".join(Page(shown(thing)).text.split()) == snapshot


def test_the_bar_is_full_and_says_in_words_what_it_shows(many: Report) -> None:
    html = shown(many)
    assert (
        'aria-label="busy 56%, waiting for data 34%, host dispatch 7%, launch latency 2%, between kernels 1%"' in html
    )
    widths = [float(part.split('%"')[0]) for part in html.split('width="')[2:]]
    assert sum(widths) == pytest.approx(100, abs=0.2)


def test_a_job_that_was_only_watched_has_a_bar_too(watched_cpu: Report) -> None:
    html = shown(watched_cpu)
    assert 'aria-label="waiting for data' in html
    widths = [float(part.split('%"')[0]) for part in html.split('width="')[2:]]
    assert sum(widths) == pytest.approx(100, abs=0.2)


def test_how_to_get_a_timeline_is_said_where_nobody_asked_for_one(many: Report) -> None:
    assert "picture=True" in shown(many)
    assert "picture=True" not in shown(replace(many, picture=Picture()))
    assert "picture=True" not in shown(linted())


def test_nothing_of_a_file_acts(many: Report) -> None:
    findings = tuple(
        replace(one, rule=EVIL, message=EVIL, fixes=(Fix(EVIL, EVIL * 2, "code"),)) for one in many.findings
    )
    page = Page(shown(replace(many, findings=findings, summary=replace(many.summary, verdict=EVIL))))
    assert not {"script", "img"} & set(page.elements)
    assert "onerror" not in page.attributes
    assert "{{ 7 * 7 }}" in page.text


def test_it_stays_small(many: Report) -> None:
    long = "n" * 10_000
    finding = replace(many.findings[0], message=long, fixes=(Fix(long, "\n".join([long] * 40), "code"),))
    assert len(shown(replace(many, findings=(finding,) * 500))) < 25_000


def test_what_the_public_functions_return_shows_itself() -> None:
    for thing in (linted(), FOUND):
        assert thing._repr_html_() == shown(thing)


@pytest.mark.parametrize("first", ["whyidle", "whyidle.compare.verdict", "whyidle.diagnosis", "whyidle.cli"])
def test_however_it_was_imported_it_shows_itself(first: str) -> None:
    """`whyidle.compare` is a function, and a package once that was imported: who asks for it is not always told."""
    script = (
        f"import {first}; from whyidle.model import comparison, finding; "
        "assert finding.Report(finding.RunInfo(), finding.Summary('Idle.'))._repr_html_().startswith('<div'); "
        "assert comparison.Comparison._repr_html_"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_who_only_imports_it_pays_nothing() -> None:
    script = "import sys, whyidle; assert not [name for name in sys.modules if name.startswith('whyidle.model')]"
    subprocess.run([sys.executable, "-c", script], check=True)
