"""What may make the verdict wrong: said where it is read, not at the end."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.advice import warnings as of_source
from whyidle.render.caveats import warnings
from whyidle.render.html.section import Section, filled

SHOWN = 3  # the rest is folded


def section(report: Report) -> Section | None:
    """Return the warnings that the verdict does not say; None without any."""
    told = list(of_source(report)) if report.summary.source is not None else warnings(report)
    return Section("warnings", "Warnings", filled("warnings", told=told, shown=SHOWN)) if told else None
