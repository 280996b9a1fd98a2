"""A report against a truth: what of it is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whyidle
from scoring.records import Failure, Outcome, Said, Truth, truth_of
from whyidle.errors import WhyIdleError
from whyidle.model.finding import Report


@dataclass(frozen=True, slots=True)
class NoReport:
    """Why there is no report."""

    failure: Failure
    why: str


def report_on(path: Path, diagnose: Callable[[list[str | Path]], Report] = whyidle.diagnose) -> Report | NoReport:
    """Ask whyidle as a notebook does. A crash is a result."""
    try:
        return diagnose([path])
    except WhyIdleError as error:
        return NoReport("refused", error.message)
    except Exception as error:  # noqa: BLE001 - what a scoreboard is for
        return NoReport("crash", f"{type(error).__name__}: {error}")


def judge_one(truth: Truth | Mapping[str, Any], report: Report) -> Outcome:
    """Return what a report says about a job, given as simulated or as `truth_of` reads it.

    Findings of none.* say that nothing is wrong: they are no causes.
    """
    summary = report.summary
    return Outcome(
        truth=truth if isinstance(truth, Truth) else truth_of(truth),
        findings=said(report),
        idle_by_cause=None if summary.gpu_idle_share is None else dict(summary.idle_by_cause),
        busy_share=summary.gpu_busy_share,
        failure="not judged" if report.exit_code == 2 else None,
        why=summary.verdict if report.exit_code == 2 else "",
    )


def judge_failure(truth: Truth | Mapping[str, Any], failure: Failure, why: str) -> Outcome:
    """Return the outcome of a job for which there is no report."""
    return Outcome(truth if isinstance(truth, Truth) else truth_of(truth), failure=failure, why=why)


def said(report: Report) -> tuple[Said, ...]:
    """Return the findings of a report that name a cause, in its order."""
    return tuple(
        Said(finding.rule, finding.severity, finding.confidence, finding.lost_share)
        for finding in report.findings
        if not finding.rule.startswith("none.")
    )
