"""What limits a verdict, as plain text for every form of a report: warnings, and rules that could not be asked."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.words import clean


def warnings(report: Report) -> list[str]:
    """Return the warnings that neither the verdict nor the cost says already."""
    return [
        warning
        for warning in report.warnings
        if warning.rstrip(".") not in report.summary.verdict
        and not (warning.startswith("no cost: ") and report.judged and report.summary.gpu_idle_share is not None)
    ]


def ways(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """Return the rules that could not be asked, by how to get their evidence: the way that most rules need first."""
    by_how: dict[str, list[str]] = {}
    for unknown in report.unknown:
        by_how.setdefault(clean(unknown.how), []).append(clean(unknown.rule))
    return [(how, tuple(rules)) for how, rules in sorted(by_how.items(), key=lambda item: -len(item[1]))]
