"""A report as a notebook shows it below a cell: the answer, where the time goes, and what to do first.

It has no script and no style sheet, and its colours read on a light and on a dark ground, as nobody knows which it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from whyidle.model.comparison import Comparison
from whyidle.model.finding import Finding, Report
from whyidle.render import comparison
from whyidle.render.headline import sentences
from whyidle.render.html.bar import parts_of
from whyidle.render.html.section import filled
from whyidle.render.markdown import facts, in_short
from whyidle.render.palette import BUSY, COLORS, OTHER
from whyidle.render.places import in_source, spot
from whyidle.render.words import clean, plural, shorten
from whyidle.render.worth import is_alone, priced, worth

MOST: Final = 3  # findings, and doubts
LINES: Final = 12  # of code to type
LONG: Final = 400  # characters of a text that says one thing
SAVE: Final = 'open("report.html", "w", encoding="utf-8").write(whyidle.render(report, "html"))'
DRAW: Final = "report = whyidle.diagnose(…, picture=True)"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the bar."""

    label: str
    said: str
    x: float  # percent of the width, too
    width: float
    color: str


@dataclass(frozen=True, slots=True)
class Told:
    """A finding in short."""

    rule: str
    message: tuple[str, ...]  # text and code by turns
    place: str  # in source
    worth: str
    change: str


def shown(thing: Report | Comparison) -> str:
    """Return what stands in a notebook for a report, or for a comparison."""
    return str(_comparison(thing) if isinstance(thing, Comparison) else _report(thing))


def _report(report: Report) -> str:
    answer, *more = sentences(report.summary.verdict)
    left = len(report.findings) - MOST
    parts = list(_parts(report))
    return filled(
        "notebook",
        answer=shorten(answer, LONG),
        more=shorten(" ".join(more), 2 * LONG),
        facts=facts(report),
        parts=parts,
        said=", ".join(f"{part.label} {part.said}" for part in parts),
        table=(),
        findings=[_told(number, one, report) for number, one in enumerate(report.findings[:MOST], start=1)],
        notes=[f"and {plural(left, 'more finding')}"] if left > 0 else [],
        hints=list(_hints(report)),
    )


def _hints(report: Report) -> Iterator[tuple[str, str]]:
    """Yield how to get more than a notebook shows."""
    yield "All of it, as a page", SAVE
    if report.picture is None and report.run.evidence and report.summary.source is None:
        yield "With the timeline and the curves, before that", DRAW


def _parts(report: Report) -> Iterator[Part]:
    """Yield the bar of the page: where the time goes, end to end; its parts fill the width."""
    for part in parts_of(report):
        color = BUSY if part.color == "busy" else COLORS.get(part.color, OTHER)
        start, width = round(100 * part.start, 3), round(100 * part.width, 3)
        yield Part(clean(part.label), part.said, start, width, color.terminal)


def _told(number: int, finding: Finding, report: Report) -> Told:
    message, gain = in_short(number, finding, report)
    where = in_source(finding)
    fix = priced(finding, report.prediction) or next(iter(finding.fixes), None)
    if fix is not None and fix.predicted is not None:
        gain = worth(fix.predicted, report, " alone" if is_alone(finding, report.prediction) else "")
    lines = [] if fix is None else fix.change.splitlines() or [fix.title]
    kept = [shorten(clean(line.replace("\t", "    ")), LONG) for line in lines[:LINES]]
    change = "\n".join(kept + (["…"] if len(lines) > LINES else []))
    said = tuple(message.split("`")) if message.count("`") % 2 == 0 else (message,)
    return Told(clean(finding.rule), said, "" if where is None else shorten(spot(where), LONG), gain, change)


def _comparison(found: Comparison) -> str:
    first, more = comparison.answer(found)
    rows = [(row.label.strip(), row.before, row.after, row.ratio) for row in comparison.rows(found)]
    return filled(
        "notebook",
        answer=shorten(first, LONG),
        more=shorten(more, 2 * LONG),
        facts="",
        parts=(),
        said="",
        table=[("", "before", "after", ""), *rows] if rows else (),
        findings=(),
        notes=[f"But {shorten(clean(text), LONG)}" for text in islice(comparison.doubts(found), MOST)],
        hints=(),
    )
