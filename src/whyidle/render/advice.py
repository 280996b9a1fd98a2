"""A finding as one text, for formats that have a single field for it: what is wrong, then what to change."""

from __future__ import annotations

from whyidle.model.finding import Finding, Location, Report
from whyidle.render.words import clean


def advice(finding: Finding) -> str:
    """Return the message, and below it the first fix: its title and what to type."""
    lines = [clean(finding.message)]
    if finding.fixes:
        fix = finding.fixes[0]
        lines += [f"To change: {clean(fix.title)}", *map(_code, fix.change.splitlines())]
    return "\n".join(lines)


def _code(line: str) -> str:
    return "    " + clean(line.replace("\t", "    ")).rstrip()


def in_source(finding: Finding) -> Location | None:
    """Return the first of its places that is a line of source."""
    return next((place for place in finding.locations if place.line is not None), None)


def unread(report: Report) -> tuple[tuple[str, str], ...]:
    """Return files of source that could not be read, each with the reason; none where a recording was judged."""
    return tuple((file.path, file.why) for file in report.run.ignored) if report.summary.source is not None else ()
