"""A browser for tests, and pages to look at with it; skipped where either is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.chromium import OpenPage


def found() -> str | None:
    """Return the path of a Chromium: that of WHYIDLE_CHROMIUM, else the system's."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("WHYIDLE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


# Of this folder, not of the session: while Playwright runs, so does an event loop, and other tests start their own.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Run one browser for all tests of this folder in this process."""
    pytest.importorskip("playwright", reason="no browser: Playwright is not installed")
    program = found()
    if program is None:
        pytest.skip("no browser: Debian's chromium is not installed, and WHYIDLE_CHROMIUM names none")
    from tests.browser.chromium import started

    with started(Path(program)) as browser:
        yield browser


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Open pages; whatever the console, the policy or the network says of them is a failure."""
    from tests.browser.chromium import Desk

    desk = Desk(chromium, tmp_path)
    yield desk.open
    faults = desk.close()
    assert not faults, "\n".join(faults)
