"""The timeline of a trace: steps, idle time by cause, streams, host threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure.analysis import Analysis
from whyidle.measure.timeline import Timeline as Rows
from whyidle.model.finding import CAUSES
from whyidle.model.picture import Lane, Timeline


def timeline_of(analysis: Analysis) -> Timeline:
    """Return one trace as lanes; times count from where a trace viewer puts its zero."""
    trace = analysis.t.trace
    names = (*CAUSES, *trace.strings)
    low, high = analysis.t.whole_window
    return Timeline(
        f"rank {trace.rank}" if trace.rank is not None else trace.path,
        trace.path,
        trace.rank,
        low - trace.origin,
        high - trace.origin,
        names,
        (*_idle(analysis), *_streams(analysis.t)),
    )


def _idle(analysis: Analysis) -> Iterator[Lane]:
    origin = analysis.t.trace.origin
    for device in analysis.devices:
        pieces = device.pieces
        order = np.argsort(pieces.start, kind="stable")
        start, end = pieces.start[order] - origin, pieces.end[order] - origin
        name = pieces.cause[order].astype(np.int32)
        depth = np.zeros(len(order), np.uint8)
        yield Lane("idle by cause", "idle", start, end, name, depth, len(order), np.zeros(0, np.float32))


def _streams(rows: Rows) -> Iterator[Lane]:
    d, origin = rows.device, rows.trace.origin
    for stream in np.unique(d.stream):
        mine = np.flatnonzero(d.stream == stream)
        name = (d.name[mine] + len(CAUSES)).astype(np.int32)
        depth = np.zeros(len(mine), np.uint8)
        start, end = d.start[mine] - origin, d.end[mine] - origin
        yield Lane(f"stream {stream}", "stream", start, end, name, depth, len(mine), np.zeros(0, np.float32))
