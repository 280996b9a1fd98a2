"""A page opens from a file, in either theme, on a phone, without scripts: and says what the report says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import EVERY, NAMES, made
from tests.browser.pages import page as html_of
from whyidle.render.headline import sentences

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.chromium import OpenPage


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_and_says_what_the_report_says(open_page: OpenPage, name: str) -> None:
    page = open_page(made(name).html)
    verdict = made(name).json["summary"]["verdict"]
    assert read(page, "h1") == verdict
    file = page.locator("#save").get_attribute("download").removesuffix("-report.json")
    assert page.title() in {verdict, f"{sentences(verdict)[0].rstrip('.')} · {file}"}
    assert json.loads(page.locator("#whyidle-report").text_content()) == made(name).json


@pytest.mark.parametrize("name", EVERY)
def test_a_narrow_window_needs_no_scrolling_sideways(open_page: OpenPage, name: str) -> None:
    page = open_page(html_of(name), 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 768, "height": 1024})
    assert page.evaluate("document.documentElement.scrollWidth") <= 768


def test_the_theme_is_the_systems_until_a_reader_chooses(open_page: OpenPage) -> None:
    light, dark = (open_page(made("demo").html, theme=theme) for theme in ("light", "dark"))
    ground = "getComputedStyle(document.body).backgroundColor"
    assert brightness(light.evaluate(ground)) > 0.8
    assert brightness(dark.evaluate(ground)) < 0.2
    dark.click("#theme")
    assert brightness(dark.evaluate(ground)) > 0.8
    dark.reload()
    assert brightness(dark.evaluate(ground)) > 0.8, "the browser remembers"
    dark.click("#theme")
    assert brightness(dark.evaluate(ground)) < 0.2


def test_a_browser_that_keeps_nothing_shows_either_theme(open_page: OpenPage) -> None:
    page = open_page(made("demo").html)
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); } })")
    page.reload()
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("name", NAMES)
def test_without_scripts_it_reads_the_same(open_page: OpenPage, name: str) -> None:
    page = open_page(made(name).html, scripts=False)
    text = read(page, "body")
    assert made(name).json["summary"]["verdict"] in text
    for finding in made(name).json["findings"]:
        assert finding["rule"] in text


@pytest.mark.parametrize(
    "anchor",
    ["%", "%E0%A4%A", "t=0:1-1e999", f"t=0:1-2;m=0-{'9' * 400}", "t=9:1-2", f"t=0:-{'9' * 400}-{'9' * 400}", "<b>"],
)
def test_any_address_opens_it(open_page: OpenPage, anchor: str) -> None:
    page = open_page(made("demo").html, anchor=anchor)
    page.get_by_text(" shown").wait_for()
    assert "NaN" not in page.locator(".tl-stage canvas").get_attribute("aria-label")


def test_an_old_browser_says_so_and_shows_the_rest(open_page: OpenPage) -> None:
    page = open_page(made("demo").html)
    page.add_init_script("delete window.DecompressionStream")
    page.reload()
    assert page.get_by_text("a browser of 2023 or later").is_visible()
    assert page.locator("#theme").is_visible()


def test_the_report_can_be_saved(open_page: OpenPage) -> None:
    page = open_page(made("demo").html)
    with page.expect_download() as download:
        page.click("#save")
    assert json.loads(download.value.path().read_text("utf-8")) == made("demo").json


def read(page: Page, part: str) -> str:
    """Return the text of a part as it is read, with a space for each line break."""
    return " ".join(page.locator(part).inner_text().split())


def brightness(color: str) -> float:
    """Return 0 to 1 of "rgb(20, 23, 28)"."""
    parts = color[color.index("(") + 1 : -1].split(",")
    return sum(float(part) for part in parts[:3]) / 3 / 255
