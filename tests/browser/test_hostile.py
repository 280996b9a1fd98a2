"""Hostile text on every page of every verb, in a real browser: it stays text and pushes nothing aside."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.render.html.reports import full, retold
from tests.render.html.test_hostile_page import linted
from tests.render.html.test_verb_pages import pages
from whyidle.model.finding import Report, RunInfo, Summary
from whyidle.render import render
from whyidle.render.base import Look
from whyidle.render.problems import known

if TYPE_CHECKING:
    from tests.browser.chromium import OpenPage

EVIL = "</script><img src=x onerror=\"document.title='mine'\">" + "x" * 10_000 + "שָׁלוֹם\u202e"
NAMES = ("report", "lint", "refused", "empty", "compare", "sweep", "loader", "scaling")


def evil(text: str) -> str:
    """Return what a file can put in the place of a text: anything but the name of a rule."""
    return text if text in known() else EVIL


@cache
def hostile() -> dict[str, str]:
    refused = Report(RunInfo(), Summary(EVIL), warnings=(EVIL,) * 9, judged=False)
    reports = {
        "report": retold(full(), evil),
        "lint": retold(linted(), evil),
        "refused": refused,
        "empty": replace(refused, summary=Summary(""), warnings=()),
    }
    return {name: render(report, "html") for name, report in reports.items()} | pages(Look())


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_is_text(open_page: OpenPage, name: str) -> None:
    page = open_page(hostile()[name])
    assert page.title() != "mine"
    assert page.locator("img").count() == 0
    for width in (1280, 768, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
