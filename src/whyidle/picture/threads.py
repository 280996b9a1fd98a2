"""Host threads as lanes: what the framework did, and beside it, where stacks were recorded, the Python frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whyidle.measure.names import PROFILER_STEP
from whyidle.measure.rows import Index
from whyidle.measure.timeline import Timeline, parents
from whyidle.model.evidence import Kind
from whyidle.model.finding import CAUSES
from whyidle.model.intervals import union
from whyidle.picture.sketch import Row, depths

THREADS: Final = 8  # that are drawn; of more those that drive the GPU, then those that do most
WHOLE: Final = 0.99  # of the recording: a frame that lasts so long, as main(), says nothing and hides what does
PASSED_ON: Final = 0.95  # of the frame around it: one that lasts so long is a wrapper, as Module._call_impl (judgement)


def threads(t: Timeline, crew: Sequence[int], engines: Sequence[int]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Return the lanes of host threads, and what has to be said of them.

    Args:
        t: the trace.
        crew: threads that drive a device, the main one first.
        engines: autograd's own threads.
    """
    rows = dict(_by_thread(t, _steps(t)))
    work = {thread: _time(t, index) for thread, index in rows.items()}
    first = [thread for thread in dict.fromkeys((*crew, *map(int, t.launched_threads))) if thread in rows]
    order = dict.fromkeys((*first, *sorted(rows, key=lambda thread: -work[thread])))
    shown = list(order)[:THREADS]
    length = max(int(t.host.end.max() - t.host.start[0]), 1) if len(t.host) else 1
    lanes: list[Row] = []
    for thread in shown:
        role = "main" if [thread] == list(crew[:1]) else "autograd" if thread in engines else ""
        lanes += _lanes(t, rows[thread], f"thread {_number(t, thread)}", role, length)
    more = [f"{len(shown)} of {len(rows)} host threads are drawn."] if len(shown) < len(rows) else []
    return tuple(lanes), tuple(more)


def _steps(t: Timeline) -> Index:
    """Return the marks of steps: they have a lane of their own, and would take the first row of each thread."""
    return t.host_like(PROFILER_STEP, Kind.RANGE)


def _by_thread(t: Timeline, without: Index) -> Iterator[tuple[int, Index]]:
    """Yield each thread with its slices, in order of start."""
    thread = t.host.thread
    small = thread.astype(np.uint16) if len(t.trace.threads) <= np.iinfo(np.uint16).max else thread  # sorts faster
    order = np.argsort(small, kind="stable")
    if len(without):
        kept = np.ones(len(thread), np.bool_)
        kept[without] = False
        order = order[kept[order]]
    bounds = np.searchsorted(thread[order], np.arange(len(t.trace.threads) + 1))
    for number, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        if high > low:
            yield number, order[low:high]


def _time(t: Timeline, index: Index) -> int:
    return union(t.host.start[index], t.host.end[index]).total


def _number(t: Timeline, thread: int) -> str:
    """Return what the recording calls a thread; readers put its process before it."""
    return t.trace.threads[thread].rpartition("/")[2] or str(thread)


def _lanes(t: Timeline, index: Index, title: str, role: str, length: int) -> Iterator[Row]:
    """Yield the lanes of one thread: its calls and ranges, its Python frames."""
    frames = t.host.kind[index] == Kind.PYTHON
    told = f"{title} ({role})" if role else title
    if not frames.all():
        yield _lane(t, index[~frames], told, 0)
    if frames.any():
        inside = index[frames]
        kept = _telling(t, inside, length)
        yield _lane(t, kept, f"{title} (Python)", len(inside) - len(kept))


def _telling(t: Timeline, frames: Index, length: int) -> Index:
    """Return the frames of a thread but those that last throughout, and those that a frame only passes its call to."""
    brief = frames[t.host.end[frames] - t.host.start[frames] < WHOLE * length]
    frames = brief if len(brief) else frames
    start, end = t.host.start[frames], t.host.end[frames]
    parent = parents(start, end)
    around = np.where(parent >= 0, (end - start)[parent], np.iinfo(np.int64).max)
    return frames[end - start < PASSED_ON * around]


def _lane(t: Timeline, index: Index, title: str, hidden: int) -> Row:
    h, origin = t.host, t.trace.origin
    start, end = h.start[index] - origin, h.end[index] - origin
    name = (h.name[index] + len(CAUSES)).astype(np.int32)
    return Row(title, "thread", start, end, name, depths(start, end), hidden)
