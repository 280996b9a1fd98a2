"""A finding as one text, for formats that have a single field for it: what is wrong, then what to change."""

from __future__ import annotations

from whyidle.model.finding import Finding, Report
from whyidle.render.places import cell, in_source
from whyidle.render.words import clean


def advice(finding: Finding) -> str:
    """Return the message, of a notebook with the cell, and below it the first fix: its title and what to type."""
    place = in_source(finding)
    where = cell(place) if place is not None else ""
    lines = [f"{where}: {clean(finding.message)}" if where else clean(finding.message)]
    if finding.fixes:
        fix = finding.fixes[0]
        lines += [f"To change: {clean(fix.title)}", *map(_code, fix.change.splitlines())]
    return "\n".join(lines)


def _code(line: str) -> str:
    return "    " + clean(line.replace("\t", "    ")).rstrip()


def unread(report: Report) -> tuple[tuple[str, str], ...]:
    """Return files of source that could not be read, each with the reason; none where a recording was judged."""
    return tuple((file.path, file.why) for file in report.run.ignored) if report.summary.source is not None else ()


def warnings(report: Report) -> tuple[str, ...]:
    """Return the warnings but for those that say of a file of source that it could not be read."""
    said = {f"{path}: {why}" for path, why in unread(report)}
    return tuple(warning for warning in report.warnings if warning not in said)
