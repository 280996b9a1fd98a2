"""Bars and whiskers of the pages, as places in percent of a drawing's width: no script, no style, any width of screen.

A template makes an SVG of them (templates/verbs_macros.html); what they show stands in words beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whyidle.model.comparison import Interval
from whyidle.render.html.scales import Scale

ROOM = 0.08  # of the range, that an axis has beyond what it shows
END = 0.02  # of an axis from zero, so that the end of a whisker is seen
FAR = 1.5  # times the largest likely value: a whisker that reaches further is cut, and the others stay legible


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a stacked bar."""

    label: str
    color: str  # class that gives it its colour
    start: float  # percent of the width
    width: float
    said: str = ""  # what a pointer over it tells


@dataclass(frozen=True, slots=True)
class Whisker:
    """A value with the range in which it lies."""

    low: float  # percent of the width
    likely: float
    high: float
    open: bool = False  # nothing tells how far it reaches
    cut: bool = False  # it reaches beyond what is drawn


def whisker(interval: Interval, scale: Scale) -> Whisker:
    """Return where an interval stands on an axis."""
    is_open = not (math.isfinite(interval.low) and math.isfinite(interval.high))
    low, high = (interval.likely, interval.likely) if is_open else (interval.low, interval.high)
    return Whisker(scale.at(low), scale.at(interval.likely), scale.at(high), is_open, high > scale.high)


def around(values: Iterable[float]) -> Scale:
    """Return an axis on which all of these stand, with some room at both ends."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    room = (high - low) * ROOM or abs(high) * ROOM or 1.0
    return Scale(low - room, high + room)


def from_zero(values: Iterable[float]) -> Scale:
    """Return an axis from 0 to the largest of these."""
    return Scale(0.0, max((value for value in values if math.isfinite(value)), default=0.0) or 1.0)


def to_ends(intervals: Sequence[Interval], *others: float) -> Scale:
    """Return an axis from 0 on which all of these end, but for what reaches far beyond all that is likely."""
    most = max((one.likely for one in intervals if math.isfinite(one.likely)), default=0.0)
    ends = [min(max(one.high, one.likely), FAR * most) for one in intervals if math.isfinite(one.high)]
    return Scale(0.0, from_zero([most, *ends, *others]).high * (1 + END))


def stacked(parts: Sequence[tuple[str, str, float, str]], whole: float) -> tuple[Piece, ...]:
    """Return parts, each (label, class of its colour, size, what is said), in a row on a width of `whole`."""
    pieces, start = [], 0.0
    for label, color, size, said in parts:
        width = max(size, 0.0) / whole * 100 if whole > 0 else 0.0
        pieces.append(Piece(label, color, round(start, 3), round(width, 3), said))
        start += width
    return tuple(pieces)
