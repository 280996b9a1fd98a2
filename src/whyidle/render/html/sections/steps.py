"""Step by step: how long each step took, and how step times are distributed."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.html.figures import figure, spans
from whyidle.render.html.section import Section, filled


def section(report: Report) -> Section | None:
    """Return the charts by step; None where no steps were seen."""
    if report.picture is None:
        return None
    charts = [(index, chart) for index, chart in enumerate(report.picture.charts) if chart.axis != "s" and chart.lines]
    if not charts:
        return None
    shared = spans(report.picture.charts)
    alone = [figure(chart, index, span=shared.get(chart.group), tall=True) for index, chart in charts]
    return Section("steps", "Step by step", filled("charts", families=[("", alone)], above=""), "Steps")
