"""Lines of source: the ones that stall or can, as an excerpt with what is meant marked, and those that are cleared."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.model.finding import Finding, Report
from whyidle.render.excerpt import parts
from whyidle.render.html.section import Section, filled
from whyidle.render.places import in_source, number, spot, spots
from whyidle.render.source import mended, tags
from whyidle.render.words import clean

OPEN = 20  # findings that are shown unfolded


@dataclass(frozen=True, slots=True)
class Spot:
    """A finding at a line."""

    finding: Finding
    where: str  # "train.py:41:9"
    number: str  # of the line, as a person sees it
    excerpt: tuple[str, str, str] | None  # before what is meant, that, after; None: its text is not known
    tags: str
    others: str  # the other lines that belong to it


def section(report: Report) -> Section | None:
    """Return the findings that have a line of source, and what a recording cleared; None without any."""
    found = [made for finding in report.findings if (made := _spot(finding)) is not None]
    if not found and not report.cleared:
        return None
    cleared = [made for finding in report.cleared if (made := _spot(finding)) is not None]
    shown = filled("source", found=found, open=OPEN, cleared=cleared, mended=mended(report))
    return Section("source", "In the source", shown)


def _spot(finding: Finding) -> Spot | None:
    place = in_source(finding)
    if place is None:
        return None
    others = [other for other in finding.locations if other is not place and other.line is not None]
    told = clean(tags(finding))
    return Spot(finding, spot(place), number(place), parts(place), told, spots(others))
