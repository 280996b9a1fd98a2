"""A click on a finding moves the timeline to the gap that the finding is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import made
from tests.browser.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.chromium import OpenPage

IN_VIEW = """async (section) => {
    const seen = () => {
        const box = section.getBoundingClientRect();
        return box.top < innerHeight && box.bottom > 0;
    };
    for (let wait = 0; wait < 200 && !seen(); wait++) await new Promise((done) => setTimeout(done, 50));
    return seen();
}"""


def window(page: Page) -> tuple[int, int]:
    """Return what the timeline shows, in ns, as the page's address tells it."""
    until(page, "location.hash.startsWith('#t=')")
    found = re.fullmatch(r"#t=(\d+):(-?\d+)-(-?\d+)(?:;m=-?\d+-\d+)?", page.evaluate("location.hash"))
    assert found, page.evaluate("location.hash")
    return int(found[2]), int(found[3])


def test_the_first_finding_moves_the_timeline_to_its_gap(open_page: OpenPage) -> None:
    page = open_page(made("demo").html)
    link = page.locator("[data-timeline][data-start]").first
    start, end = int(link.get_attribute("data-start")), int(link.get_attribute("data-end"))
    places = made("demo").json["findings"][0]["locations"]
    begin, finish = next((place["start_s"], place["end_s"]) for place in places if place.get("start_s") is not None)
    assert (start / 1e9, end / 1e9) == pytest.approx((begin, finish), abs=1e-5)  # JSON has fewer digits
    link.click()
    left, right = window(page)
    whole = made("demo").report.picture.timelines[0]
    assert left <= start < end <= right
    assert right - left < (whole.end - whole.start) / 2, "it zooms in"
    assert page.locator("#timeline").evaluate(IN_VIEW)


def test_a_link_to_the_page_marks_again_what_was_marked(open_page: OpenPage) -> None:
    page = open_page(made("demo").html)
    link = page.locator("[data-timeline][data-start]").first
    place = f"{link.get_attribute('data-start')}-{link.get_attribute('data-end')}"
    link.click()
    left, right = window(page)
    assert page.evaluate("location.hash") == f"#t=0:{left}-{right};m={place}"
    again = open_page(made("demo").html, anchor=f"t=0:{left}-{right};m={place}")
    plain = open_page(made("demo").html, anchor=f"t=0:{left}-{right}")
    drawn = "document.querySelector('.tl-stage canvas').toDataURL()"
    for one in (again, plain):
        one.get_by_text(" shown").wait_for()
    until(again, "new Promise((done) => setTimeout(() => done(true), 3000))")  # longer than a click's mark stays
    assert again.evaluate(drawn) != plain.evaluate(drawn)
    again.locator(".tl-stage canvas").focus()
    again.keyboard.press("f")  # it is still in sight
    until(again, f"location.hash.endsWith(';m={place}') && !location.hash.includes('-{right};')")
    again.keyboard.press("Escape")
    until(again, "location.hash.startsWith('#t=0:') && !location.hash.includes('m=')")
