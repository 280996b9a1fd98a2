"""The timeline: an island that the bundle fills; without scripts it says what it would show."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.html.section import Section, filled


def section(report: Report) -> Section | None:
    """Return the place of the timeline; None where nothing was recorded over time."""
    if report.picture is None or not report.picture.timelines:
        return None
    return Section("timeline", "Timeline", filled("timeline", timelines=report.picture.timelines))
