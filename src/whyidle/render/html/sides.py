"""Where the time goes on both sides of a comparison: two bars of one scale, and what each part of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from whyidle.model.comparison import Comparison
from whyidle.model.finding import Summary
from whyidle.render.comparison import groups_of, phases_of
from whyidle.render.headline import filling_step, time_per_step
from whyidle.render.html.bar import color_and_class
from whyidle.render.html.whiskers import Piece, stacked
from whyidle.render.words import duration, percent

NO_BREAK: Final = "\N{NO-BREAK SPACE}"
MINUS: Final = "\N{MINUS SIGN}"
SMALL: Final = 0.002  # of the time on both sides: no line in the table


@dataclass(frozen=True, slots=True)
class Line:
    """A part of the time."""

    label: str
    color: str
    before: str
    after: str
    change: str


@dataclass(frozen=True, slots=True)
class Sides:
    """Two bars."""

    title: str
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    before_said: str  # how long the whole is
    after_said: str
    lines: tuple[Line, ...]
    in_time: bool  # their lengths compare: both are parts of a step


def sides(found: Comparison) -> Sides | None:
    """Return the bars; None where neither side tells where its time goes."""
    one, other = found.before.summary, found.after.summary
    if one.gpu_idle_share is not None or other.gpu_idle_share is not None:
        had, has = _gpu(one), _gpu(other)
        title = "Where each GPU second goes"
    else:
        had, has = phases_of(one) or {}, phases_of(other) or {}
        title = "Where the host's time goes"
    if not had and not has:
        return None
    times = time_per_step(one), time_per_step(other)
    in_time = None not in times
    lengths = [time if in_time and time is not None else 1.0 for time in times]
    labels = list(dict.fromkeys([*had, *has]))
    order = sorted(labels, key=lambda label: (label != "busy", -max(had.get(label, 0.0), has.get(label, 0.0))))
    whole = max(lengths)
    bars = [
        stacked(
            [(label, _color(label), shares.get(label, 0.0) * length, _said(label, shares, time)) for label in order],
            whole,
        )
        for shares, length, time in zip((had, has), lengths, times, strict=True)
    ]
    lines = tuple(
        _line(label, (had, has), times) for label in order if max(had.get(label, 0.0), has.get(label, 0.0)) >= SMALL
    )
    said = [
        "not recorded" if not shares else _length(summary, time)
        for shares, time, summary in zip((had, has), times, (one, other), strict=True)
    ]
    return Sides(title, bars[0], bars[1], said[0], said[1], lines, in_time)


def _gpu(summary: Summary) -> dict[str, float]:
    """Return busy and idle time by group, as shares of the whole; empty where no trace tells."""
    groups = groups_of(summary)
    if groups is None or summary.gpu_idle_share is None:
        return {}
    rest = summary.gpu_idle_share - sum(groups.values())
    groups["unknown"] = groups.get("unknown", 0.0) + max(rest, 0.0)
    return {"busy": 1 - summary.gpu_idle_share, **{label: share for label, share in groups.items() if share > 0}}


def _length(summary: Summary, time: float | None) -> str:
    """Return how long the whole of a bar is."""
    if time is None:
        return ""
    return f"{duration(time)} a step" + ("" if filling_step(summary) else ", with the first one and all pauses")


def _color(label: str) -> str:
    return color_and_class(label)[1]


def _said(label: str, shares: Mapping[str, float], time: float | None) -> str:
    share = shares.get(label, 0.0)
    return f"{label}: {percent(share)}{f', {duration(share * time)} of a step' if time is not None else ''}"


def _line(
    label: str, both: tuple[Mapping[str, float], Mapping[str, float]], times: tuple[float | None, float | None]
) -> Line:
    cells = []
    for shares, time in zip(both, times, strict=True):
        share = shares.get(label, 0.0)
        in_step = f" · {duration(share * time).replace(' ', NO_BREAK)}" if time is not None else ""
        cells.append("not recorded" if not shares else f"{percent(share)}{in_step}" if share > 0 else "–")
    change = ""
    if all(both) and times[0] is not None and times[1] is not None:
        change = _signed(both[1].get(label, 0.0) * times[1] - both[0].get(label, 0.0) * times[0])
    return Line(label, _color(label), cells[0], cells[1], change)


def _signed(seconds: float) -> str:
    if abs(seconds) < 5e-7:
        return "–"
    return f"{'+' if seconds > 0 else MINUS}{duration(abs(seconds))}"
