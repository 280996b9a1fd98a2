"""What is wrong, what to do and what it is worth stand on the first screen, at a desk and on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import EVERY, made
from tests.browser.pages import page as html_of

if TYPE_CHECKING:
    from tests.browser.chromium import OpenPage

# Boxes of the first screen whose text runs out of them, and so over what follows.
SPILLING = """() => [...document.querySelectorAll("#verdict, #verdict *")].filter((box) =>
    box instanceof HTMLElement && box.clientHeight > 0 && getComputedStyle(box).overflow === "visible" &&
    (box.scrollHeight > box.clientHeight + 8 || box.scrollWidth > box.clientWidth + 8)
).map((box) => box.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("name", EVERY)
def test_no_text_runs_over_another(open_page: OpenPage, name: str) -> None:
    page = open_page(html_of(name))
    for width in (1280, 768, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(SPILLING) == [], width


@pytest.mark.parametrize("name", EVERY)
def test_at_a_desk_no_section_is_cut_off_the_header(open_page: OpenPage, name: str) -> None:
    nav = open_page(html_of(name), 1280).locator(".top nav")
    assert nav.evaluate("(nav) => nav.scrollWidth <= nav.clientWidth")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["demo", "watched"])
def test_three_questions_are_answered_without_scrolling(open_page: OpenPage, name: str, width: int) -> None:
    page = open_page(made(name).html, width)
    fix = made(name).json["findings"][0]["fixes"][0]
    speedup = fix["predicted"]["speedup"]
    height = page.viewport_size["height"]
    for text in (made(name).json["summary"]["verdict"], fix["change"], f"{speedup['likely']:.1f}x"):
        shown = page.get_by_text(text).first
        box = shown.bounding_box()
        assert box is not None, text
        assert 0 <= box["y"] < box["y"] + box["height"] <= height, text
