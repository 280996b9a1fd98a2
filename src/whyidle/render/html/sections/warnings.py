"""What may make the verdict wrong: counted on the first screen; where nothing was judged, right below it."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.advice import warnings as of_source
from whyidle.render.caveats import warnings
from whyidle.render.html.section import Section, filled
from whyidle.render.notes import by_name
from whyidle.render.words import clean

SHOWN = 3  # the rest is folded


def first(report: Report) -> Section | None:
    """Return the warnings right below the first screen of a report without a judgement: they are why."""
    return None if report.judged else _section(report)


def section(report: Report) -> Section | None:
    """Return the warnings below what they limit."""
    return _section(report) if report.judged else None


def told(report: Report) -> list[str]:
    """Return the warnings that the verdict does not say."""
    said = of_source(report) if report.summary.source is not None else warnings(report)
    return [by_name(clean(warning), report.run) for warning in said]


def _section(report: Report) -> Section | None:
    every = told(report)
    return Section("warnings", "Warnings", filled("warnings", told=every, shown=SHOWN)) if every else None
