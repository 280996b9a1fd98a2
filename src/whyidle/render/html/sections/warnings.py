"""What may make the verdict wrong: said where it is read, not at the end."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.advice import warnings as of_source
from whyidle.render.caveats import warnings
from whyidle.render.html.section import Section, filled
from whyidle.render.notes import by_name
from whyidle.render.words import clean

SHOWN = 3  # the rest is folded


def section(report: Report) -> Section | None:
    """Return the warnings that the verdict does not say; None without any."""
    said = of_source(report) if report.summary.source is not None else warnings(report)
    told = [by_name(clean(warning), report) for warning in said]
    return Section("warnings", "Warnings", filled("warnings", told=told, shown=SHOWN)) if told else None
