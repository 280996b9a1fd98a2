"""A report as a notebook shows it below a cell: the answer, where the time goes, and what to do first.

It has no script and no style sheet, and its colours read on a light and on a dark ground, as nobody knows which it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from whyidle.model.comparison import Comparison
from whyidle.model.finding import Finding, Report
from whyidle.render import comparison
from whyidle.render.bars import bars
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


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the bar."""

    label: str
    percent: int
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
    answer, more = _sentences(report.summary.verdict)
    left = len(report.findings) - MOST
    parts = list(_parts(report)) if report.judged else []
    return filled(
        "notebook",
        answer=answer,
        more=more,
        facts=" · ".join(map(clean, facts(report))),
        parts=parts,
        said=", ".join(f"{part.label} {part.percent}%" for part in parts),
        table=(),
        findings=[_told(number, one, report) for number, one in enumerate(report.findings[:MOST], start=1)],
        notes=[f"and {plural(left, 'more finding')}"] if left > 0 else [],
        hint_head="All of it, as a page",
        hint=SAVE,
    )


def _parts(report: Report) -> Iterator[Part]:
    """Yield busy time and the causes of idle time, end to end; they fill the width."""
    idle = report.summary.gpu_idle_share
    if idle is None:
        return
    shown = bars(idle, report.summary.idle_by_cause)
    busy = 100 - sum(bar.percent for bar in shown)
    whole = 1 - idle + sum(bar.share for bar in shown) or 1.0  # without what is too small to be told
    at = 0.0
    for label, percent, share in [("busy", busy, 1 - idle), *((bar.label, bar.percent, bar.share) for bar in shown)]:
        color, width = BUSY if label == "busy" else COLORS.get(label, OTHER), 100 * share / whole
        yield Part(clean(label), percent, round(at, 3), round(width, 3), color.terminal)
        at += width


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
    answer, more = _sentences(found.message)
    rows = [(row.label.strip(), row.before, row.after, row.ratio) for row in comparison.rows(found)]
    return filled(
        "notebook",
        answer=answer,
        more=more,
        facts="",
        parts=(),
        said="",
        table=[("", "before", "after", ""), *rows] if rows else (),
        findings=(),
        notes=[f"But {shorten(clean(text), LONG)}" for text in islice(comparison.doubts(found), MOST)],
        hint_head="",
        hint="",
    )


def _sentences(text: str) -> tuple[str, str]:
    """Return the first sentence, and what follows it."""
    first, *more = re.split(r"(?<=[.!?]) (?=[A-Z])", clean(text), maxsplit=1)
    return shorten(first, LONG), shorten(more[0], 2 * LONG) if more else ""
