"""On paper everything is there to read, on white, and nothing that only a screen can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import NAMES, made

if TYPE_CHECKING:
    from tests.browser.chromium import OpenPage


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_is_white_and_has_no_buttons(open_page: OpenPage, theme: str) -> None:
    page = open_page(made("demo").html, theme=theme)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") in {
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    }
    buttons = page.locator("button:visible").evaluate_all("(all) => all.map((one) => [one.className, one.innerText])")
    assert [said for kind, said in buttons if "tl-cause" not in kind] == [], "a legend is no control on paper"


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_is_on_paper(open_page: OpenPage, name: str) -> None:
    page = open_page(made(name).html)
    page.emulate_media(media="print")
    text = page.locator("main").inner_text()
    for finding in made(name).json["findings"]:
        assert finding["rule"] in text
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")


def test_what_only_explains_stays_folded_on_paper(open_page: OpenPage) -> None:
    page = open_page(made("demo").html)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".note:visible").count() == len({one["rule"] for one in made("demo").json["findings"]})
    for folded in (".note > section", ".chart-numbers", ".way > dl"):
        assert page.locator(f"{folded}:visible").count() == 0, folded
    assert page.locator("details.finding > dl:visible").count() == len(made("demo").json["findings"])
