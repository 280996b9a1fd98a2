"""Charts as figures: a caption, a drawing that needs no scripts, its numbers as a table; and lines for cells of tables.

With scripts web/src/charts puts a chart that can be zoomed in the place of the drawing; on paper the drawing stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
from markupsafe import Markup

from whyidle.model.picture import Chart, Line
from whyidle.render.html.plot import MUTED, TALL, WIDE, drawn, is_labeled, mean, path, placed, roles
from whyidle.render.html.scales import Scale, across, along, bin_width, started, time_label, upward
from whyidle.render.html.section import filled
from whyidle.render.words import clean, duration, plural

TOP: Final = 8  # pixels above the largest number of the y axis
STRIP: Final = 16  # pixels for the names of marks
RECURRING: Final = ("checkpoint", "evaluation")  # kinds of marks that the legend of a small figure names
FEW: Final = 12  # moments that recur: more are short lines at the top, so that they do not hide the chart
LISTED: Final = 12  # marks of one name that the table below a figure tells


@dataclass(frozen=True, slots=True)
class Entry:
    """A line in the legend."""

    role: str
    label: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a line shows, as a row of a table."""

    label: str
    cells: tuple[str, ...]


def figure(
    chart: Chart,
    index: int,
    *,
    span: Scale | None = None,
    tall: bool = False,
    above: Collection[str] = (),
    listed: bool = True,
) -> Markup:
    """Return a chart as an element of the page.

    Args:
        chart: what to draw.
        index: where it stands in Picture.charts, so that the scripts find it.
        span: what its x axis shows; None for all of it. Charts of a group share one: `spans`.
        tall: it stands alone in its row.
        above: what is said once above several figures, so that this one does not say it again.
        listed: name its marks below its numbers; not where another figure does.
    """
    x = span or across(chart)
    y, levels = upward(chart)
    every = roles(chart.lines)
    head, rows = numbers(chart)
    known = {chart.title, chart.unit}
    return filled(
        "chart",
        chart=chart,
        index=index,
        tall=tall,
        roles=" ".join(every),
        legend=legend(chart.lines, every),
        only=chart.lines[0].label if len(chart.lines) == 1 and chart.lines[0].label not in known else "",
        crowded=sum(mark.kind in RECURRING and mark.start == mark.end for mark in chart.marks) > FEW,
        lines=tuple(drawn(chart, x, y)),
        levels=levels,
        ticks=along(x, chart.axis, chart.clock),
        marks=tuple(placed(chart.marks, x, tall=tall)),
        kinds=tuple(kind for kind in RECURRING if any(mark.kind == kind for mark in chart.marks)),
        top=TOP + (STRIP if any(is_labeled(mark) for mark in chart.marks) else 0),
        height=240 if tall else 150,
        below=below(chart) if below(chart) not in above else "",
        note=chart.note if chart.note not in above else "",
        said=said(chart, rows),
        head=head,
        rows=rows,
        named=_named(chart) if listed else [],
        box=f"0 0 {WIDE} {TALL}",
    )


def spans(charts: Iterable[Chart]) -> dict[str, Scale]:
    """Return what the x axis of each group of charts shows, by its name."""
    out: dict[str, Scale] = {}
    for chart in charts:
        if chart.group and len(chart.x):
            own, so_far = across(chart), out.get(chart.group)
            out[chart.group] = own if so_far is None else Scale(min(own.low, so_far.low), max(own.high, so_far.high))
    return out


def sparkline(points: Sequence[float]) -> Markup:
    """Return a line for a cell of a table, from zero up; the numbers have to stand beside it."""
    values = np.asarray(points, np.float64)
    top = float(np.nanmax(values, initial=0.0)) if len(values) else 0.0
    left = np.linspace(2, 98, len(values)) if len(values) > 1 else np.full(len(values), 50.0)
    return filled("sparkline", path=path(left, 22 - values / (top or 1.0) * 20))


def said_once(charts: Sequence[Chart]) -> tuple[str, ...]:
    """Return what all of several charts would say: what their x axis is, and their note."""
    if len(charts) < 2:
        return ()
    same = (below(charts[0]), charts[0].note)
    every = [(below(chart), chart.note) for chart in charts]
    return tuple(text for place, text in enumerate(same) if text and all(two[place] == text for two in every))


def above(once: Sequence[str]) -> str:
    """Return what is said once above several figures as sentences."""
    return " ".join(text if text.endswith(".") else f"Horizontal axis: {clean(text)}." for text in once)


def legend(lines: Sequence[Line], every: Sequence[str]) -> tuple[Entry, ...]:
    """Return what the colours of lines mean."""
    named = [Entry(role, clean(line.label)) for line, role in zip(lines, every, strict=True) if role != MUTED]
    others = len(lines) - len(named)
    if not others:
        return tuple(entry for entry in named if entry.label) if len(named) > 1 else ()
    what = {"1": "median", "2": "lowest", "3": "highest"}
    stand_out = [Entry(entry.role, f"{entry.label} ({what[entry.role]})") for entry in named]
    return (*sorted(stand_out, key=lambda entry: "213".index(entry.role)), Entry(MUTED, plural(others, "other")))


def numbers(chart: Chart) -> tuple[tuple[str, ...], tuple[Numbers, ...]]:
    """Return the head and the rows of a chart's table."""
    if chart.axis == "step_time_s":
        return ("steps", "shortest", "longest"), tuple(_spread(chart, line) for line in chart.lines)
    return ("least", "mean", "most"), tuple(_range(chart, line) for line in chart.lines)


def below(chart: Chart) -> str:
    """Return what stands below the x axis."""
    if chart.axis == "step":
        return "step"
    if chart.axis == "step_time_s":
        return "time of a step"
    start = started(chart.clock)
    if start is not None:
        return f"{start:%Y-%m-%d}, UTC"
    return f"time from the {chart.clock}" if chart.clock.startswith("start") else chart.clock and f"0 is {chart.clock}"


def said(chart: Chart, rows: Sequence[Numbers]) -> str:
    """Return what a chart shows in a sentence, for who does not see it."""
    head, _ = numbers(chart)
    some = "; ".join(
        f"{row.label}: " + ", ".join(f"{name} {cell}" for name, cell in zip(head, row.cells, strict=True))
        for row in rows[:4]
    )
    more = f"; and {len(rows) - 4} more" if len(rows) > 4 else ""
    return f"{clean(chart.title)}. {some}{more}." if some else f"{clean(chart.title)}."


def number(value: float) -> str:
    """Return a number with three digits, whole from a hundred on."""
    if not np.isfinite(value):
        return "not measured"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}" if abs(value) >= 0.095 else f"{value:.3g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _range(chart: Chart, line: Line) -> Numbers:
    if line.whole is not None:
        values = (line.whole.least, line.whole.mean, line.whole.most)
    else:
        low, high = (line.y if bound is None else bound for bound in (line.low, line.high))
        values = (float(_known(low).min()), mean(line.y), float(_known(high).max()))
    return Numbers(clean(line.label) or clean(chart.title), tuple(_with_unit(value, chart.unit) for value in values))


def _with_unit(value: float, unit: str) -> str:
    return f"{number(value)}{'' if unit == '%' else ' '}{clean(unit)}" if np.isfinite(value) else number(value)


def _known(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    known = values[np.isfinite(values)]
    return known if len(known) else np.array([np.nan])


def _spread(chart: Chart, line: Line) -> Numbers:
    label, there = clean(line.label) or clean(chart.title), np.flatnonzero(np.nan_to_num(line.y) > 0)
    if line.whole is not None:
        ends = (line.whole.least, line.whole.most)
        return Numbers(label, (f"{line.whole.count:,}", *map(duration, ends)))
    if not len(there):
        return Numbers(label, ("0", "not measured", "not measured"))
    half = bin_width(chart) / 2
    ends = (chart.x[there[0]] - half, chart.x[there[-1]] + half)
    return Numbers(label, (f"{np.nansum(line.y):,.0f}", *(duration(float(end)) for end in ends)))


def _named(chart: Chart) -> list[str]:
    """Return where marks are, a line for each name."""
    found: dict[str, list[str]] = {}
    for mark in chart.marks:
        if mark.kind != "step":
            start, end = _at(mark.start, chart), _at(mark.end, chart)
            found.setdefault(clean(mark.label), []).append(start if start == end else f"{start} to {end}")
    more = {label: len(places) - LISTED for label, places in found.items()}
    return [
        f"{label}: {', '.join(places[:LISTED])}{f', and {more[label]:,} more' if more[label] > 0 else ''}"
        for label, places in found.items()
    ]


def _at(value: float, chart: Chart) -> str:
    if chart.axis == "step":
        return f"{value:,.0f}"
    if chart.axis == "step_time_s":
        return duration(value)
    start = started(chart.clock)
    if start is not None:
        return f"{start + timedelta(seconds=value):%H:%M:%S}"
    sign, size = "-" if value < 0 else "", abs(value)
    return sign + (time_label(size, 1, size) if size >= 120 else duration(size))
