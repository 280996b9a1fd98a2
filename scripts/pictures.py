"""Take the pictures of the HTML report that the README shows, and those that its makers look at.

    python scripts/pictures.py                  docs/pictures/*.png, of the recordings that ship with whyidle
    python scripts/pictures.py --review FOLDER  of many kinds of report, wide and narrow, light, dark and on paper

Needs a Chromium and the `test` extra. Recordings of others are looked at where WHYIDLE_CORPUS names them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.browser.chromium import Desk, started  # noqa: E402
from tests.browser.conftest import found  # noqa: E402
from whyidle.cli import main as whyidle  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHIPPED = ROOT / "docs" / "pictures"
DEMO = ROOT / "src" / "whyidle" / "demo"
RUNS = ROOT / "tests" / "runs"
WIDTHS = (1280, 768, 390)
THEMES = ("light", "dark")


def written(target: Path, *arguments: str | Path) -> str:
    """Return the page that a verb writes."""
    whyidle([*map(str, arguments), "--format", "html", "-o", str(target)])
    return target.read_text("utf-8")


def told(*arguments: str | Path) -> str:
    """Return the page that a verb writes to standard output, as of what it cannot judge."""
    command = [sys.executable, "-m", "whyidle", *map(str, arguments), "--format", "html"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment)  # noqa: S603
    return ran.stdout


def keep(picture: bytes, name: str) -> None:
    """Write a picture of the README."""
    target = SHIPPED / name
    target.write_bytes(picture)
    print(f"{target.relative_to(ROOT)}: {len(picture) / 1e3:.0f} kB")  # noqa: T201


def ship(desk: Desk, pages: Path) -> None:
    """Write the pictures of the README."""
    SHIPPED.mkdir(exist_ok=True)
    os.chdir(DEMO)  # files are called as they are named, and nobody's folders are to be seen
    report = written(pages / "demo.html", "diagnose", "before.json.gz")
    for theme in THEMES:
        page = desk.open(report, theme=theme)
        keep(page.screenshot(), f"report-{theme}.png")
    page = desk.open(report)
    keep(page.locator("#timeline").screenshot(), "timeline.png")
    compared = written(pages / "compared.html", "compare", "before.json.gz", "after.json.gz")
    keep(desk.open(compared).screenshot(), "compare.png")


def kinds(pages: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield kinds of report by name, and what makes the page of each; of the corpus where it is."""
    corpus = Path(os.environ.get("WHYIDLE_CORPUS", ROOT.parent / "shared" / "corpus")) / "kineto"
    resnet = (corpus / "resnet50_num_workers_0", corpus / "resnet50_num_workers_4")
    every: Mapping[str, tuple[str | Path, ...]] = {
        "demo": ("diagnose", DEMO / "before.json.gz"),
        "healthy": ("diagnose", RUNS / "healthy"),
        "watched": ("diagnose", RUNS / "watched" / "loader-workers-0"),
        "curves": ("diagnose", RUNS / "curve"),
        "compare-demo": ("compare", DEMO / "before.json.gz", DEMO / "after.json.gz"),
        "compare-watched": (
            "compare", RUNS / "watched" / "loader-workers-0", RUNS / "watched" / "loader-workers-1"
        ),
        "resnet50": ("diagnose", resnet[0]),
        "compare-resnet50": ("compare", *resnet),
        "owlv2": ("diagnose", *sorted(corpus.glob("tracelens_h100/*owlv2*"))[:1]),
        "ranks-8": ("diagnose", corpus / "dlrm_8_ranks"),
    }  # fmt: skip
    for name, words in every.items():
        if len(words) > 1 and all(Path(word).exists() for word in words[1:]):
            yield name, partial(written, pages / f"{name}.html", *words)
    yield "refused", partial(told, "diagnose", ROOT / "docs" / "examples")


def review(desk: Desk, pages: Path, folder: Path, only: str | None) -> None:
    """Write pictures of every kind of report, in every width and theme, and as printed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in kinds(pages):
        if only not in {None, name}:
            continue
        html = make()
        (folder / f"{name}.html").write_text(html, "utf-8")
        for theme in THEMES:
            page = desk.open(html, theme=theme)
            page.screenshot(path=folder / f"{name}-first-{theme}.png")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 844 if width < min(WIDTHS[:-1]) else 900})
                page.wait_for_timeout(300)  # canvases are drawn again
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
        page.emulate_media(media="print")
        page.pdf(path=folder / f"{name}.pdf", format="A4", print_background=True)
        page.set_viewport_size({"width": 718, "height": 1000})  # A4 less its margins
        page.screenshot(path=folder / f"{name}-print.png", full_page=True)
        phone: Page = desk.open(html, 390)
        phone.screenshot(path=folder / f"{name}-first-390.png")
        print(f"{name}: {len(html.encode()) / 1e3:.0f} kB")  # noqa: T201


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--review", type=Path, metavar="FOLDER", help="pictures of many kinds of report, to look at")
    words.add_argument("--only", metavar="NAME", help="one kind of report of these")
    options = words.parse_args()
    program = found()
    if program is None:
        sys.exit("no Chromium here: install one, or name it in WHYIDLE_CHROMIUM")
    with tempfile.TemporaryDirectory() as name, started(Path(program)) as browser:
        desk = Desk(browser, Path(name))
        if options.review is None:
            ship(desk, Path(name))
        else:
            review(desk, Path(name), options.review, options.only)
        for fault in desk.close():
            print(f"fault: {fault}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
