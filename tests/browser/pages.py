"""Pages for tests to open, each made once in a process: of recordings that ship with us or with the tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import whyidle
from whyidle.model.finding import Report

RUNS = Path(__file__).parents[1] / "runs"
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
        with as_file(files("whyidle") / "demo" / "before.json.gz") as path:
            report = whyidle.diagnose(path, picture=True)
    else:
        report = whyidle.diagnose(RUNS / OF_TESTS[name], picture=True)
    return Made(report, whyidle.render(report, "html"), json.loads(whyidle.render(report, "json")))
