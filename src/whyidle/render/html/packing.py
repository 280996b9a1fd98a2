"""What the scripts draw, as they read it: JSON, its columns as one compressed block of bytes.

A lane's columns follow each other in `bytes`: start (difference to the one before), duration, name, each as unsigned
LEB128, then depth as bytes, then covered as bytes (0-255). All lanes of all timelines share one block: zlib, base64.
web/src/data.ts reads it.
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
from whyidle.render.palette import GROUP_OF, slug

LONGEST = 300  # characters of a name that a page shows


def packed(picture: Picture) -> str:
    """Return a picture as JSON."""
    block = bytearray()
    timelines = [_timeline(timeline, block) for timeline in picture.timelines]
    return json.dumps(
        {
            "timelines": timelines,
            "charts": [_chart(chart) for chart in picture.charts],
            "causes": {cause: slug(GROUP_OF[cause]) for cause in CAUSES},
            "meanings": {slug(label): meaning for label, meaning in MEANINGS.items()},
            "bytes": base64.b64encode(zlib.compress(bytes(block), 6)).decode(),
        },
        separators=(",", ":"),
        allow_nan=False,
    )


def in_script(text: str) -> Markup:
    """Return JSON that cannot end the element that it stands in, whatever names it holds."""
    escaped = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(escaped.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704


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


def _timeline(timeline: Timeline, block: bytearray) -> dict[str, object]:
    used = np.unique(np.concatenate([np.zeros(0, np.int32), *(lane.name for lane in timeline.lanes)]))
    return {
        "title": timeline.title,
        "file": timeline.file,
        "rank": timeline.rank,
        "start": timeline.start,
        "end": timeline.end,
        "names": [timeline.names[code][:LONGEST] for code in used],
        "lanes": [_lane(lane, timeline.start, used, block) for lane in timeline.lanes],
        "note": timeline.note,
    }


def _lane(lane: Lane, zero: int, used: NDArray[np.int32], block: bytearray) -> dict[str, object]:
    offset = len(block)
    block += varints(np.diff(lane.start, prepend=zero).clip(0))
    block += varints((lane.end - lane.start).clip(0))
    block += varints(np.searchsorted(used, lane.name))
    block += lane.depth.astype(np.uint8).tobytes()
    block += np.round(lane.covered.clip(0, 1) * 255).astype(np.uint8).tobytes()
    shown = {"title": lane.title, "kind": lane.kind, "count": lane.count}
    return shown | {"offset": offset, "slices": len(lane), "covered": len(lane.covered)}


def _chart(chart: Chart) -> dict[str, object]:
    return {
        "title": chart.title,
        "unit": chart.unit,
        "axis": chart.axis,
        "x": list(_numbers(chart.x)),
        "lines": [_line(line) for line in chart.lines],
        "marks": [{"kind": m.kind, "label": m.label, "start": m.start, "end": m.end} for m in chart.marks],
        "group": chart.group,
        "clock": chart.clock,
        "note": chart.note,
        "upper": chart.upper,
    }


def _line(line: Line) -> dict[str, object]:
    bounds = {"low": line.low, "high": line.high}
    return {"label": line.label, "y": list(_numbers(line.y))} | {
        name: None if values is None else list(_numbers(values)) for name, values in bounds.items()
    }


def _numbers(values: NDArray[np.float64]) -> Iterator[float | None]:
    """Yield numbers with the digits that a screen can show; None where not measured."""
    for value in values.tolist():
        yield float(f"{value:.7g}") if math.isfinite(value) else None
