"""Pages for tests to open, each made once in a process: of recordings that ship with us or with the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

import whyidle
from whyidle.cli import main
from whyidle.model.finding import Report

RUNS = Path(__file__).parents[1] / "runs"
DEMO = files("whyidle") / "demo"
# The demo is a package's file; the others are kinds of evidence: two ranks, curves alone, a watched job, a healthy one.
OF_TESTS = {"ranks": "straggler", "curves": "curve", "watched": "watched/loader-workers-0", "healthy": "healthy"}
NAMES = ("demo", *OF_TESTS)


@dataclass(frozen=True)
class Made:
    """A report as page and as JSON."""

    report: Report
    html: str
    json: dict


@cache
def made(name: str) -> Made:
    """Return the page of one of NAMES."""
    if name == "demo":
        with as_file(DEMO / "before.json.gz") as path:
            report = whyidle.diagnose(path, picture=True)
    else:
        report = whyidle.diagnose(RUNS / OF_TESTS[name], picture=True)
    return Made(report, whyidle.render(report, "html"), json.loads(whyidle.render(report, "json")))


def compare() -> str:
    """Return what `whyidle compare` writes of the demo's two recordings."""
    with TemporaryDirectory() as folder, as_file(DEMO) as demo:
        target = Path(folder) / "compared.html"
        main(["compare", str(demo / "before.json.gz"), str(demo / "after.json.gz"), "-o", str(target)])
        return target.read_text("utf-8")


def sweep() -> str:
    from tests.render.test_sweep_screen import SWEEP
    from whyidle.render.base import Look
    from whyidle.render.html.sweep import sweep_page

    return sweep_page(SWEEP, Look())


OTHERS: Mapping[str, Callable[[], str]] = {"compare": compare, "sweep": sweep}


@cache
def page(name: str) -> str:
    """Return any page by its name: a report, or what another verb writes."""
    return OTHERS[name]() if name in OTHERS else made(name).html


EVERY = (*NAMES, *OTHERS)
