"""A real browser that looks at pages of ours: what it refuses, reports or fetches is kept, and is a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.browser.waiting import WITHIN_MS

# What nobody asked for stays away: a sandbox (CI runs as root), a GPU, updates, accounts.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PHONE = 500  # CSS pixels: a window narrower than that is as high as a phone's


@dataclass
class Seen:
    """What a page did that no page of ours may do."""

    faults: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"an error that nobody caught: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:  # a violation of the policy is one, too
            self.faults.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        itself = request.is_navigation_request() and request.url.startswith("file:")
        if not itself and not request.url.startswith(("data:", "blob:")):
            self.faults.append(f"a request: {request.url[:200]}")


@dataclass
class Desk:
    """Opens pages in one browser; `close` says what was wrong with any of them."""

    browser: Browser
    folder: Path
    seen: Seen = field(default_factory=Seen)
    contexts: list[BrowserContext] = field(default_factory=list)

    def open(
        self,
        html: str | Path,
        width: int = 1280,
        theme: str = "light",
        *,
        scripts: bool = True,
        lawless: bool = False,
        anchor: str = "",
    ) -> Page:
        """Open a page from a file, as a reader would, and wait until its scripts are done.

        Args:
            html: the page, or the file that it is in.
            width: of the window, in CSS pixels.
            theme: that the reader's system has.
            scripts: False for a reader without JavaScript.
            lawless: without the page's policy, so that a test can put scripts of its own in.
            anchor: a part of the page to open it at.
        """
        context = self.browser.new_context(
            viewport={"width": width, "height": 844 if width < PHONE else 900},
            color_scheme="dark" if theme == "dark" else "light",
            java_script_enabled=scripts,
            bypass_csp=lawless,
            offline=True,
            accept_downloads=True,
        )
        context.set_default_timeout(WITHIN_MS)
        self.contexts.append(context)
        file = html if isinstance(html, Path) else self.folder / f"page-{len(self.contexts)}.html"
        if isinstance(html, str):
            file.write_text(html, "utf-8")
        page = context.new_page()
        self.seen.watch(page)
        page.goto(file.as_uri() + (f"#{anchor}" if anchor else ""))
        if scripts:
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    def close(self) -> list[str]:
        """Close every page, and return their faults."""
        for context in self.contexts:
            context.close()
        return self.seen.faults


@contextmanager
def started(program: Path) -> Iterator[Browser]:
    """Run a browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


OpenPage = Callable[..., Page]
