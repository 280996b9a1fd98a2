"""The timeline: an island that the bundle fills. Without scripts it says so, and without a picture how to get one."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.html.section import Section, filled


def section(report: Report) -> Section | None:
    """Return the place of the timeline, or how to ask for one; None where nothing was recorded over time."""
    asked = report.picture is not None
    if (report.picture is not None and not report.picture.timelines) or not report.run.evidence:
        return None
    return Section("timeline", "Timeline", filled("timeline", asked=asked))
