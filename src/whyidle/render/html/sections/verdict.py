"""What is wrong, in one sentence, with its number: what everybody reads."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.html.section import Section, filled


def section(report: Report) -> Section:
    """Return the first screen of the page."""
    return Section("verdict", "", filled("verdict", report=report))
