"""axe-core finds no serious fault of accessibility, light and dark, wide and narrow, all of the page open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import EVERY
from tests.browser.pages import page as html_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.chromium import OpenPage

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = {"serious", "critical"}
OPEN = "document.querySelectorAll('details').forEach((part) => (part.open = true))"


def faults(page: Page) -> list[str]:
    """Return what axe-core finds grave, a line for each element."""
    page.evaluate(OPEN)
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{fault['id']} ({fault['impact']}): {node['html'][:160]} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]


@pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm ci in web/ brings it")
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_grave_fault(open_page: OpenPage, name: str, theme: str) -> None:
    page = open_page(html_of(name), theme=theme, lawless=True)
    assert faults(page) == []
    if theme == "light":  # a phone has the same colours, and another order
        page.set_viewport_size({"width": 390, "height": 844})
        assert faults(page) == []
