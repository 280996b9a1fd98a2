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
    rank: int  # among all findings, from 1 on; 0: cleared
    where: str  # "train.py:41:9"
    number: str  # of the line, as a person sees it
    excerpt: tuple[str, str, str] | None  # before what is meant, that, after; None: its text is not known
    tags: str
    others: str  # the other lines that belong to it


def section(report: Report) -> Section | None:
    """Return the findings that have a line of source, and what a recording cleared; None without any."""
    ranked = enumerate(report.findings, start=1)
    found = [made for rank, finding in ranked if (made := _spot(finding, rank)) is not None]
    if not found and not report.cleared:
        return None
    cleared = [made for finding in report.cleared if (made := _spot(finding, 0)) is not None]
    alone = report.summary.source is not None  # no other section has cards of these findings
    shown = filled("source", found=found, open=OPEN, cleared=cleared, mended=mended(report), alone=alone)
    return Section("source", "In the source", shown, "Source")


def _spot(finding: Finding, rank: int) -> Spot | None:
    place = in_source(finding)
    if place is None:
        return None
    others = [other for other in finding.locations if other is not place and other.line is not None]
    told = clean(tags(finding))
    return Spot(finding, rank, spot(place), number(place), parts(place), told, spots(others))
