"""The order in which to fix things: saving times probability over effort, the largest first.

The saving is what replay predicts, where it did, else what is lost (`Finding.score`).
"""

from __future__ import annotations

from collections.abc import Iterable

from whyidle.model.finding import Finding


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in order of what to do first; equal ones by loss, then by id, so that reports are stable.

    A none.* finding says that there is nothing to do: it stays only where nothing at medium or above was found.
    """
    ordered = sorted(findings, key=lambda f: (-f.score, -(f.lost_share or 0.0), f.rule))
    if any(finding.severity != "low" for finding in ordered):
        ordered = [finding for finding in ordered if not finding.rule.startswith("none.")]
    return tuple(ordered)
