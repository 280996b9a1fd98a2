"""All findings of all files as one report, with a sentence that says it all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whyidle.lint.batch import Outcome
from whyidle.lint.findings import once
from whyidle.lint.parsing import NOTEBOOK
from whyidle.lint.source import Unread
from whyidle.model.finding import EvidenceFile, Finding, Report, RunInfo, SourceSummary, Summary

if TYPE_CHECKING:
    from whyidle.model.evidence import Ignored


def report_of(outcomes: Sequence[Outcome], locked: Sequence[Unread] = ()) -> Report:
    """Return the report on these files.

    Args:
        outcomes: what linting each gave. What is found in one file by way of several is said once.
        locked: folders into which nobody could look.
    """
    read = [outcome for outcome in outcomes if outcome.unread is None]
    unread = [*(outcome.unread for outcome in outcomes if outcome.unread is not None), *locked]
    findings = tuple(one.finding for one in once(one for outcome in read for one in outcome.said))
    notebooks = [outcome for outcome in read if is_notebook(outcome)]
    source = SourceSummary(
        files=len(read),
        lines=sum(outcome.lines for outcome in read),
        unread=len(unread),
        notebooks=len(notebooks),
        fixable=sum(any(fix.patch is not None for fix in finding.fixes) for finding in findings),
    )
    evidence = tuple(
        EvidenceFile(outcome.file.name, "notebook" if is_notebook(outcome) else "source", None) for outcome in read
    )
    return Report(
        RunInfo(evidence, _ignored(unread)),
        Summary(verdict(findings, len(read)), source=source),
        findings,
        warnings=(
            *(f"{one.name}: {one.why}" for one in unread),
            *(warning for outcome in read for warning in outcome.warnings),
        ),
        judged=bool(read),
    )


def is_notebook(outcome: Outcome) -> bool:
    """Say whether a file is a notebook."""
    return outcome.file.path.suffix.lower() == NOTEBOOK


def verdict(findings: Sequence[Finding], files: int) -> str:
    """Return the answer in one sentence."""
    if not files:
        return "Cannot judge: no file could be read."
    of_files = _count(files, "file")
    grave = {place(finding) for finding in findings if finding.severity != "low"}
    low = {place(finding) for finding in findings} - grave
    if not grave and not low:
        return f"No stall visible in {of_files}."
    if not grave:
        return f"No stall visible in {of_files}, but {_count(len(low), 'line')} that may cost a little."
    holding = len({file for file, _ in grave})
    where = f"{holding} of {of_files}" if files > 1 or holding > files else "1 file"
    more = f"; {len(low)} more may cost a little" if low else ""
    return f"{_count(len(grave), 'line')} in {where} can stall the GPU{more}."


def place(finding: Finding) -> tuple[str, int | None]:
    """Return file and line of a finding."""
    return finding.locations[0].file, finding.locations[0].line


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _ignored(unread: Sequence[Unread]) -> tuple[Ignored, ...]:
    if not unread:
        return ()
    from whyidle.model.evidence import Ignored  # noqa: PLC0415 - which imports numpy

    return tuple(Ignored(one.name, one.why) for one in unread)
