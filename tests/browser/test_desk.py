"""The desk on which pages are opened sees what a page may not do: a test that cannot fail shows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

PAGE = """<!doctype html><html data-ready="true"><meta charset="utf-8">{}</html>"""
POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<script>undefined.property</script>", "nobody caught"),
        ("<script>console.error('oh')</script>", "console error: oh"),
        ("<img src='http://localhost:9/a.png' alt=''>", "a request: http://localhost:9/a.png"),
        ("<img src='other.png' alt=''>", "a request: file:"),
        (f"{POLICY}<p style='color:red'>text</p>", "Content Security Policy"),
        (f"{POLICY}<script>1</script>", "Content Security Policy"),
        ("<p>text</p>", None),
    ],
)
def test_a_fault_is_seen(chromium: Browser, tmp_path: Path, body: str, fault: str | None) -> None:
    from tests.browser.chromium import Desk

    desk = Desk(chromium, tmp_path)
    desk.open(PAGE.format(body)).wait_for_load_state("networkidle")
    faults = desk.close()
    assert bool(faults) == (fault is not None)
    assert fault is None or fault in "\n".join(faults)
