"""The static drawing of a chart, as a page without scripts and paper show it: paths, bands, marks in whole numbers.

It stretches with the page: paths in a box of `WIDE` by `TALL`, everything else at percentages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Floats64
from whyidle.model.picture import Chart, Line, Mark
from whyidle.render.html.scales import Scale, bin_width

WIDE: Final = 1000
TALL: Final = 400
POINTS: Final = 300  # of one line: a point per two pixels of a figure on paper
TOGETHER: Final = 1200  # of all lines of a chart
COLORED: Final = 4  # lines that a reader can tell apart; of more than that three stand out
STEPS: Final = 120  # ticks of steps that are still ticks, not a bar
LABELED: Final = 0.0125  # of the width of a figure: a character of a mark's label

MUTED: Final = "muted"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line as paths."""

    role: str  # which of the colours of lines: "1" to "4", or MUTED
    path: str
    band: str  # from its least to its largest; "" where it has none


@dataclass(frozen=True, slots=True)
class Placed:
    """A mark at its place."""

    kind: str
    label: str  # "" where it would cover another
    at: float  # percent of the width
    width: float  # 0: a moment


def roles(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the colour of each line; of many the lowest, the median and the highest on average stand out."""
    if len(lines) <= COLORED:
        return tuple(str(place + 1) for place in range(len(lines)))
    means = np.array([mean(line.y) for line in lines])
    order = [int(place) for place in np.argsort(means, kind="stable") if np.isfinite(means[place])]
    out = [MUTED] * len(lines)
    if order:
        out[order[-1]], out[order[0]], out[order[len(order) // 2]] = "3", "2", "1"
    return tuple(out)


def mean(values: Floats64) -> float:
    """Return the mean of what was measured; NaN where nothing was."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def drawn(chart: Chart, x: Scale, y: Scale) -> Iterator[Drawn]:
    """Yield the lines of a chart as paths, those that stand out last, so that they lie on top."""
    named = list(zip(chart.lines, roles(chart.lines), strict=True))
    count = max(60, min(POINTS, TOGETHER // max(len(named), 1)))
    for line, role in sorted(named, key=lambda pair: (pair[1] != MUTED, -ord(pair[1][0]))):
        if chart.axis == "step_time_s":
            yield _bins(chart, line, role, x, y)
            continue
        at, value, low, high = thinned(chart.x, line, count)
        left, up = _place(at, x, WIDE), TALL - _place(value, y, TALL)
        band = ""
        if role != MUTED and low is not None and high is not None:
            band = area(left, TALL - _place(low, y, TALL), TALL - _place(high, y, TALL))
        yield Drawn(role, path(left, up), band)


def thinned(x: Floats64, line: Line, count: int) -> tuple[Floats64, Floats64, Floats64 | None, Floats64 | None]:
    """Return at most `count` points: x, mean, least and largest of what each stands for; NaN is not measured.

    Where no point is left out the line is returned as it is.
    """
    if len(x) <= count:
        return x, line.y, line.low, line.high
    first = np.linspace(0, len(x), count, endpoint=False).astype(np.int64)
    size = np.diff(first, append=len(x))
    known = np.isfinite(line.y)
    total = np.add.reduceat(np.where(known, line.y, 0.0), first)
    measured = np.add.reduceat(known.astype(np.int64), first)
    value = np.divide(total, measured, out=np.full(count, np.nan), where=measured > 0)
    low = np.fmin.reduceat(line.y if line.low is None else line.low, first)
    high = np.fmax.reduceat(line.y if line.high is None else line.high, first)
    return np.add.reduceat(x, first) / size, value, low, high


def path(left: Floats64, down: Floats64) -> str:
    """Return a line as SVG: it breaks where nothing was measured; a point that stands alone is a dot."""
    parts = []
    for run in _runs(np.isfinite(left) & np.isfinite(down)):
        x, y = np.rint(left[run]).astype(int), np.rint(down[run]).astype(int)
        steps = [f"{dx} {dy}" for dx, dy in zip(np.diff(x).tolist(), np.diff(y).tolist(), strict=True)]
        parts.append(f"M{x[0]} {y[0]}" + ("l" + " ".join(steps) if steps else "h0"))
    return "".join(parts).replace(" -", "-")


def area(left: Floats64, bottom: Floats64, top: Floats64) -> str:
    """Return the area between two lines as SVG."""
    parts = []
    for run in _runs(np.isfinite(bottom) & np.isfinite(top)):
        if run.stop - run.start > 1:
            x, y = np.append(left[run], left[run][::-1]), np.append(top[run], bottom[run][::-1])
            parts.append(path(x, y) + "z")
    return "".join(parts)


def is_labeled(mark: Mark) -> bool:
    """Say whether a mark has its name above it: what recurs is named in the legend."""
    return bool(mark.label) and mark.kind in {"shape", "event"}


def placed(marks: Sequence[Mark], x: Scale, *, tall: bool) -> Iterator[Placed]:
    """Yield the marks that a scale shows, names only where there is room for them, and each once."""
    character = LABELED / 2 if tall else LABELED
    steps = sum(mark.kind == "step" for mark in marks)
    free, said = 0.0, set[str]()
    for mark in sorted(marks, key=lambda mark: (mark.start, mark.end)):
        at, end = max(x.share(mark.start), 0.0), min(x.share(mark.end), 1.0)
        if at > 1 or end < 0 or (mark.kind == "step" and steps > STEPS):
            continue
        room = len(mark.label) * character
        fits = is_labeled(mark) and mark.label not in said and at >= free and at + room <= 1
        if fits:
            free = at + room
            said.add(mark.label)
        yield Placed(mark.kind, mark.label if fits else "", round(at * 100, 2), round((end - at) * 100, 2))


def _bins(chart: Chart, line: Line, role: str, x: Scale, y: Scale) -> Drawn:
    """Return a distribution as an outline with an area below it."""
    half = bin_width(chart) / 2
    if not len(chart.x):
        return Drawn(role, "", "")
    edges = np.rint(_place(np.append(chart.x - half, chart.x[-1:] + half), x, WIDE)).astype(int)
    count = np.nan_to_num(line.y)
    top = np.rint(TALL - _place(count, y, TALL)).astype(int)
    outline = ""
    for run in _runs(count > 0):
        steps = zip(top[run].tolist(), edges[run.start + 1 : run.stop + 1].tolist(), strict=True)
        outline += f"M{edges[run.start]} {TALL}" + "".join(f"V{up}H{right}" for up, right in steps) + f"V{TALL}"
    return Drawn(role, outline, outline)


def _place(values: Floats64, scale: Scale, size: int) -> Floats64:
    return (values - scale.low) / (scale.high - scale.low) * size


def _runs(known: NDArray[np.bool_]) -> Iterator[slice]:
    """Yield the stretches in which something is known."""
    turns = np.flatnonzero(np.diff(known.astype(np.int8), prepend=0, append=0))
    for start, stop in zip(turns[::2].tolist(), turns[1::2].tolist(), strict=True):
        yield slice(start, stop)
