"""The timeline of a trace: steps, idle time by cause, streams, host threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import numpy as np

from whyidle.measure.analysis import Analysis
from whyidle.measure.steps import NO_STEPS, Steps
from whyidle.measure.timeline import Timeline as Joined
from whyidle.model.evidence import Trace
from whyidle.model.finding import CAUSES
from whyidle.model.intervals import Intervals
from whyidle.picture.sketch import Row, Sketch, joined, row_of
from whyidle.picture.threads import threads

STREAMS: Final = 12  # lanes of a timeline; of more those that work most


def sketch_of(analysis: Analysis, *, with_idle: bool = True) -> Sketch:
    """Return one trace as lanes; times count from where a trace viewer puts its zero.

    Args:
        analysis: of the trace.
        with_idle: whether what it says of idle time can be believed.
    """
    t = analysis.t
    low, high = t.whole_window
    streams = list(_streams(t))
    notes = [f"{len(streams)} of {_stream_count(t)} streams are drawn."] if len(streams) < _stream_count(t) else []
    main = next((device.crew for device in analysis.devices if device.crew), [])
    host, told = threads(t, main, [int(thread) for thread in analysis.host.engines])
    return Sketch(
        title_of(t.trace),
        t.trace.path,
        t.trace.rank,
        (*CAUSES, *t.trace.strings, *step_names(t.steps)),
        (*_steps(t, t.steps), *(_idle(analysis) if with_idle else ()), *streams, *host),
        low - t.trace.origin,
        high - t.trace.origin,
        (*notes, *told),
        (low - t.trace.origin, high - t.trace.origin),
    )


def sketch_of_host(trace: Trace) -> Sketch | None:
    """Return a trace that has no GPU operation as lanes; None where nothing is in it."""
    if not len(trace.host_slices):
        return None
    t = Joined(trace)
    steps = t.profiler_steps or NO_STEPS
    host, told = threads(t, [], [])
    low = int(trace.host_slices.start[0]) - trace.origin
    names = (*CAUSES, *trace.strings, *step_names(steps))
    return Sketch(title_of(trace), trace.path, trace.rank, names, (*_steps(t, steps), *host), low, low, told)


def title_of(trace: Trace) -> str:
    """Return what a timeline is called."""
    return f"rank {trace.rank}" if trace.rank is not None else PurePath(trace.path).name


def step_names(steps: Steps) -> Iterator[str]:
    """Yield what each step is called."""
    return (f"step {number}" for number in steps.number.tolist())


def _steps(t: Joined, steps: Steps) -> Iterator[Row]:
    if len(steps):
        order = np.argsort(steps.start, kind="stable")
        name = (order + len(CAUSES) + len(t.trace.strings)).astype(np.int32)
        yield row_of("steps", "step", Intervals(steps.start[order], steps.end[order]), name, t.trace.origin)


def _idle(analysis: Analysis) -> Iterator[Row]:
    several = len(analysis.devices) > 1
    for device in analysis.devices:
        p = device.pieces
        spans, cause = joined(p.start, p.end, p.cause.astype(np.int32))
        title = f"GPU {device.device} idle by cause" if several else "idle by cause"
        yield row_of(title, "idle", spans, cause, analysis.t.trace.origin)


def _streams(t: Joined) -> Iterator[Row]:
    """Yield the streams that work most, by device and number."""
    d, origin = t.device, t.trace.origin
    several = len(t.device_ids) > 1
    found: list[tuple[int, int, int, Row]] = []
    for device in t.device_ids:
        here = np.flatnonzero(d.device == device) if several else np.arange(len(d))
        for stream in np.unique(d.stream[here]).tolist():
            mine = here[d.stream[here] == stream]
            title = f"GPU {device} stream {stream}" if several else f"stream {stream}"
            name = (d.name[mine] + len(CAUSES)).astype(np.int32)
            row = row_of(title, "stream", Intervals(d.start[mine], d.end[mine]), name, origin)
            found.append((int((row.end - row.start).sum()), device, stream, row))
    most = sorted(found, key=lambda item: -item[0])[:STREAMS]
    yield from (row for _, _, _, row in sorted(most, key=lambda item: item[1:3]))


def _stream_count(t: Joined) -> int:
    pairs = t.device.device.astype(np.int64) << 40 ^ t.device.stream
    return len(np.unique(pairs))
