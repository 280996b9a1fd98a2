"""Waits for what a page comes to, however slow the machine is. Nothing here needs a browser to be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

WITHIN_MS = 60_000  # a machine with other work takes longer; nothing here is timed


def until(page: Page, claim: str) -> None:
    """Wait until an expression holds; the page's policy forbids what Playwright would do for that."""
    for _ in range(WITHIN_MS // 50):
        if page.evaluate(claim):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {claim}")
