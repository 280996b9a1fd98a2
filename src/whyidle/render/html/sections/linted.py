"""The first screen of a report on source alone: what can stall, what to change, and how to learn what it costs."""

from __future__ import annotations

from whyidle.model.finding import WATCH, Report
from whyidle.render.html.section import Section, filled
from whyidle.render.places import in_source, spot
from whyidle.render.source import facts_of, mended


def section(report: Report) -> Section:
    """Return the first screen of the page."""
    first = next(iter(report.findings), None)
    place = in_source(first) if first is not None else None
    made = filled(
        "linted",
        report=report,
        facts=facts_of(report),
        first=first,
        fix=next(iter(first.fixes), None) if first is not None else None,
        where="" if place is None else spot(place),
        mended=mended(report),
        watch=WATCH,
    )
    return Section("verdict", "", made)
