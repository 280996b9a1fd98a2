"""What the scripts draw, as they read it: one compressed block of bytes, in base64.

First a lane's columns, lane after lane: start (difference to the one before), duration, name, each as a `column`, then
depth as bytes, then covered as bytes (0-255). Then, from `head` on, JSON with everything else, which says where each
lane begins. web/src/data.ts reads it. Names and numbers take much less room so than outside.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from whyidle.model.finding import CAUSES
from whyidle.model.picture import Chart, Lane, Line, Picture, Timeline
from whyidle.render.bars import MEANINGS
from whyidle.render.html.names import ALL, fitted
from whyidle.render.palette import GROUP_OF, slug
from whyidle.render.phases import LABELS, color_of
from whyidle.render.words import clean

# What could end the element, or is no line break in JSON but one in a script. Within JSON these stand in texts only.
_ESCAPED = "<>&\u2028\u2029"


def packed(picture: Picture) -> str:
    """Return a picture as JSON."""
    block = bytearray()
    room = ALL // max(len(picture.timelines), 1)
    head = {
        "timelines": [_timeline(timeline, block, room) for timeline in picture.timelines],
        "charts": [_chart(chart, picture) for chart in picture.charts],
        "causes": {cause: slug(GROUP_OF[cause]) for cause in CAUSES},
        "meanings": {slug(label): meaning for label, meaning in MEANINGS.items()},
        "phases": {phase: (slug(color_of(phase)), said) for phase, said in LABELS.items()},
    }
    lanes = len(block)
    block += json.dumps(head, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    return json.dumps({"head": lanes, "bytes": base64.b64encode(zlib.compress(bytes(block), 6)).decode()})


def in_script(text: str) -> Markup:
    """Return JSON that cannot end the element that it stands in, whatever names it holds."""
    for char in _ESCAPED:
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text.encode("utf-8", "replace").decode("utf-8"))  # noqa: S704


def column(values: NDArray[np.int64]) -> bytes:
    """Return numbers from 0 on in the shorter of two forms, as the first byte says.

    0: unsigned LEB128, for numbers of any sort. n: each in n bytes, first the lowest byte of all, then the next, for
    numbers that are alike in their highest bytes only, as random times are.
    """
    width = max((int(values.max(initial=0)).bit_length() + 7) // 8, 1)
    planes = values.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()
    forms = (b"\0" + varints(values), bytes([width]) + planes)
    return min(forms, key=lambda form: len(zlib.compress(form, 1)))


def varints(values: NDArray[np.int64]) -> bytes:
    """Return numbers from 0 on as unsigned LEB128, one after the other."""
    left = values.astype(np.uint64)
    size = np.ones(len(left), np.int64)
    for bits in range(7, 64, 7):
        size += left >> np.uint64(bits) > 0
    ends = np.cumsum(size)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    at = ends - size
    for digit in range(int(size.max(initial=0))):
        here = size > digit
        more = (size[here] > digit + 1).astype(np.uint8) << 7
        out[at[here] + digit] = ((left[here] >> np.uint64(7 * digit)) & np.uint64(0x7F)).astype(np.uint8) | more
    return out.tobytes()


def _timeline(timeline: Timeline, block: bytearray, room: int) -> dict[str, object]:
    used = np.unique(np.concatenate([np.zeros(0, np.int32), *(lane.name for lane in timeline.lanes)]))
    return {
        "title": clean(timeline.title),
        "file": clean(timeline.file),
        "rank": timeline.rank,
        "start": timeline.start,
        "end": timeline.end,
        "window": timeline.window or (timeline.start, timeline.end),
        "names": fitted([timeline.names[code] for code in used], room=room),
        "lanes": [_lane(lane, timeline.start, used, block) for lane in timeline.lanes],
        "note": clean(timeline.note),
    }


def _lane(lane: Lane, zero: int, used: NDArray[np.int32], block: bytearray) -> dict[str, object]:
    offset = len(block)
    block += column(np.diff(lane.start, prepend=zero).clip(0))
    block += column((lane.end - lane.start).clip(0))
    block += column(np.searchsorted(used, lane.name))
    block += lane.depth.astype(np.uint8).tobytes()
    block += np.round(lane.covered.clip(0, 1) * 255).astype(np.uint8).tobytes()
    shown = {"title": clean(lane.title), "kind": lane.kind, "count": lane.count}
    return shown | {"offset": offset, "slices": len(lane), "covered": len(lane.covered)}


def _chart(chart: Chart, picture: Picture) -> dict[str, object]:
    return {
        "title": clean(chart.title),
        "unit": clean(chart.unit),
        "axis": chart.axis,
        "x": list(_numbers(chart.x)),
        "lines": [_line(line) for line in chart.lines],
        "marks": [{"kind": m.kind, "label": clean(m.label), "start": m.start, "end": m.end} for m in chart.marks],
        "group": clean(chart.group),
        "clock": clean(chart.clock),
        "note": clean(chart.note),
        "upper": chart.upper,
        "timeline": _timeline_of(chart, picture),
    }


def _timeline_of(chart: Chart, picture: Picture) -> int | None:
    """Return which timeline has the steps that a chart counts; None where it counts none, or it is not drawn."""
    files = [timeline.file for timeline in picture.timelines]
    return files.index(chart.timeline) if chart.timeline and chart.timeline in files else None


def _line(line: Line) -> dict[str, object]:
    bounds = {"low": line.low, "high": line.high}
    return {"label": clean(line.label), "y": list(_numbers(line.y))} | {
        name: None if values is None else list(_numbers(values)) for name, values in bounds.items()
    }


def _numbers(values: NDArray[np.float64]) -> Iterator[float | None]:
    """Yield numbers with the digits that a screen can show; None where not measured."""
    for value in values.tolist():
        yield float(f"{value:.7g}") if math.isfinite(value) else None
