"""Public cases: what people reported, with a small input each. Scored as far as whyidle reads the input's kind.

A case is written as the file that a person would have. A kind of which whyidle reads no case has no reader: its cases
are counted and not scored. As soon as one is read, those of its kind that are refused are misses.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whyidle
from scoring.alike import answers
from scoring.outcome import NoReport, report_on, said
from scoring.rates import Rate
from whyidle.model.finding import Report

# The file of a kind, and where in a case's input its text is. Kinds that are no file yet (`config`, `step_timing`) are
# tables of settings and times whose format a reader will define: a line here is then all that scoring them takes.
FILES: Mapping[str, tuple[str, str]] = {
    "util_curve": ("curve.csv", "csv"),
    "nccl_log": ("nccl.log", "text"),
    "pyspy": ("pyspy.txt", "text"),
    "profiler_table": ("key_averages.txt", "text"),
    "source": ("train.py", "code"),
}

# How `input_provenance` says that numbers were filled in by whoever wrote the case down, and not reported.
FILLED = re.compile(r"\bours\b|\bby us\b|\bderived\b|^all but\b|\bsave the\b")


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What was said of a case; `said` None where the input was not read."""

    id: str
    kind: str
    expected: str
    look_alikes: tuple[str, ...]
    negative: bool
    filled_in: bool
    said: tuple[str, ...] | None = None
    crash: str = ""

    @property
    def right(self) -> bool:
        """The first finding is the cause; of a negative case, nothing is found that its look-alikes are."""
        if self.said is None or self.crash:
            return False
        if self.negative:
            return not set(self.said) & set(self.look_alikes)
        return bool(self.said) and self.said[0] in answers(self.expected)


@dataclass(frozen=True, slots=True)
class KindScore:
    """Cases of one kind of input; both rates are empty where nothing reads it."""

    kind: str
    cases: int
    read: int
    reported: Rate
    filled_in: Rate
    crashes: tuple[str, ...]


def score_cases(path: Path) -> tuple[KindScore, ...]:
    return by_kind([ask(case) for case in json.loads(path.read_text("utf-8"))])


def by_kind(outcomes: Sequence[CaseOutcome]) -> tuple[KindScore, ...]:
    return tuple(
        _kind(kind, [outcome for outcome in outcomes if outcome.kind == kind])
        for kind in sorted({outcome.kind for outcome in outcomes})
    )


def _kind(kind: str, outcomes: Sequence[CaseOutcome]) -> KindScore:
    read = sum(outcome.said is not None for outcome in outcomes)
    scored = outcomes if read else ()
    return KindScore(
        kind=kind,
        cases=len(outcomes),
        read=read,
        reported=Rate.among([outcome.right for outcome in scored if not outcome.filled_in]),
        filled_in=Rate.among([outcome.right for outcome in scored if outcome.filled_in]),
        crashes=tuple(f"{outcome.id}: {outcome.crash}" for outcome in outcomes if outcome.crash),
    )


def ask(case: Mapping[str, Any], diagnose: Callable[[list[str | Path]], Report] = whyidle.diagnose) -> CaseOutcome:
    """Write a case's input as a file and ask whyidle about it."""
    given = case["minimal_input"]
    rules: tuple[str, ...] | None = None
    crash = ""
    if given["kind"] in FILES:
        name, text = FILES[given["kind"]]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, name)
            file.write_text(given[text], "utf-8")
            report = report_on(file, diagnose)
        if not isinstance(report, NoReport):
            rules = tuple(finding.rule for finding in said(report))
        elif report.failure == "crash":
            crash, rules = report.why, ()
    return CaseOutcome(
        id=case["id"],
        kind=given["kind"],
        expected=case["expected_cause"],
        look_alikes=tuple(case["look_alikes"]),
        negative=case["case_kind"] == "negative",
        filled_in=bool(FILLED.search(case["input_provenance"])),
        said=rules,
        crash=crash,
    )
