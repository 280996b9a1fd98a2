"""The findings in ranked order: what is wrong, what it costs, what to change, where to see it. The first few open."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.model.finding import Finding, Fix, Location, Report
from whyidle.model.picture import Picture
from whyidle.render.headline import about_the_list
from whyidle.render.html.section import Section, filled
from whyidle.render.passages import EFFORT, certainty, lost, measured_next, moment, place
from whyidle.render.places import spot
from whyidle.render.words import clean
from whyidle.render.worth import following, is_alone, later, priced, worth

OPEN = 3  # cards that are open at first
PLACES = 6  # of a finding, that are listed


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding can be seen."""

    text: str
    is_code: bool = False
    timeline: int | None = None  # of the picture: it can be jumped to
    start: int = 0  # ns
    end: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A fix, and what it is worth; nothing where that was not predicted, or is said already."""

    fix: Fix
    worth: str


@dataclass(frozen=True, slots=True)
class Card:
    """A finding as the page shows it."""

    number: int
    finding: Finding
    is_predicted: bool
    cost: str  # what its fix is worth, or else what is lost
    changes: tuple[Change, ...]
    places: tuple[Place, ...]
    more_places: int
    then: str
    certainty: str


def section(report: Report) -> Section | None:
    """Return the cards; None without findings."""
    if not report.findings:
        return None
    cards = [_card(number, finding, report) for number, finding in enumerate(report.findings, start=1)]
    about = about_the_list(report) if len(cards) > 1 else ""
    html = filled("findings", cards=cards, open=OPEN, about=about, effort=EFFORT)
    return Section("findings", "Findings", html)


def _card(number: int, finding: Finding, report: Report) -> Card:
    told = priced(finding, report.prediction)
    cost = lost(finding, report.summary) if finding.lost_share else ""
    if told is not None and told.predicted is not None:
        cost = worth(told.predicted, report, " alone" if is_alone(finding, report.prediction) else "")
        cost += f"; {clause}" if (clause := later(finding, report.prediction)) else ""
    changes = () if measured_next(finding, report) else tuple(_changes(finding, told, report))
    return Card(
        number,
        finding,
        told is not None,
        cost,
        changes,
        tuple(_place(location, report) for location in finding.locations[:PLACES]),
        max(len(finding.locations) - PLACES, 0),
        following(finding, report, order_is="above"),
        certainty(finding),
    )


def _changes(finding: Finding, told: Fix | None, report: Report) -> list[Change]:
    """Return the fixes, the one that is told of above without its worth."""
    return [
        Change(fix, "" if fix is told or fix.predicted is None else worth(fix.predicted, report))
        for fix in finding.fixes
    ]


def _place(location: Location, report: Report) -> Place:
    if location.line is not None:
        return Place(spot(location), is_code=True)
    several = len(report.summary.devices) > 1
    text = moment(location, several) or place(location)
    at = timeline_of(location, report.picture)
    if at is None or location.start_s is None or location.end_s is None:
        return Place(clean(text))
    return Place(clean(text), timeline=at, start=round(location.start_s * 1e9), end=round(location.end_s * 1e9))


def timeline_of(location: Location, picture: Picture | None) -> int | None:
    """Return which timeline of the picture shows a place: that of its file and rank."""
    for index, timeline in enumerate(picture.timelines if picture is not None else ()):
        if timeline.file == location.file and (
            timeline.rank == location.rank or None in (timeline.rank, location.rank)
        ):
            return index
    return None
