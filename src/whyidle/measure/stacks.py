"""In which functions of the job does its host wait for the GPU, and what does that cost?

Python frames (`with_stack=True`) stand around each wait. A frame names its file, its function and a line: the first of
the function, or, of one that ran already when the recording began, the line that it was at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whyidle.measure import sync
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index
from whyidle.measure.timeline import Timeline, parents
from whyidle.model.evidence import Kind
from whyidle.model.finding import Location

PYTHON_FRAME = re.compile(r"^(?P<file>.+\.(?:py|ipynb|pyx)|<ipython-input[^>]*>)\((?P<line>\d+)\): (?P<function>.+)$")
BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<name>\w+)")


class Frame(NamedTuple):
    """A Python function that is running; of one that is written in C only its name is known."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class StackedWait:
    """Waits of one kind below the same Python frames."""

    kind: str  # as measure/sync.py sorts waits; "" for those that no rule speaks of
    frames: tuple[Frame, ...]  # innermost first
    count: int
    per_step: float | None  # None: there are no steps
    lost_share: float  # of the window: idle behind them that a host running ahead would have filled
    location: Location  # of the one that costs most


@dataclass(frozen=True, slots=True)
class Stacks:
    """All waits with their frames, and all functions that ran; empty where no frames were recorded."""

    waits: tuple[StackedWait, ...] = ()
    ran: frozenset[Frame] = frozenset()


def measure(analyses: Sequence[Analysis]) -> Stacks:
    """Return the waits of all ranks by what they happen in. Shares are of the windows of all ranks together."""
    framed = [a for a in analyses if len(a.t.of_kind(Kind.PYTHON)) and len(a.t.of_kind(Kind.RUNTIME))]
    if not framed:
        return Stacks()
    window = sum(a.device_window for a in framed)
    steps = sum(a.steps for a in framed)
    found: dict[tuple[str, tuple[Frame, ...]], list[tuple[int, Location]]] = {}
    for a in framed:
        for kind, frames, lost, place in of_rank(a):
            found.setdefault((kind, frames), []).append((lost, place))
    waits = (
        StackedWait(
            kind,
            frames,
            len(each),
            len(each) / steps if steps else None,
            sum(lost for lost, _ in each) / max(window, 1),
            max(each, key=lambda one: one[0])[1],
        )
        for (kind, frames), each in found.items()
    )
    return Stacks(tuple(sorted(waits, key=lambda wait: -wait.lost_share)), frozenset(frames_of(framed)))


def of_rank(a: Analysis) -> Iterator[tuple[str, tuple[Frame, ...], int, Location]]:
    """Yield each wait in the steps: its kind, its frames, what is lost behind it in ns, and where it is."""
    waits = sync.find(a)
    if not len(waits.call):
        return
    lost = np.sum(sync.all_gains(a, waits), axis=0)
    around = chains(a.t, waits.call)
    inside = a.in_steps(waits.start)
    for row in np.flatnonzero(inside).tolist():
        start, end = int(waits.start[row]), int(waits.end[row])
        place = a.t.location(start, end, a.t.host_name(int(waits.call[row])))
        yield str(waits.kind[row]), around[row], int(lost[row]), place


def chains(t: Timeline, calls: Index) -> list[tuple[Frame, ...]]:
    """Return the frames around each of these host slices, innermost first."""
    h, python = t.host, t.of_kind(Kind.PYTHON)
    innermost = t.enclosing(h.start[calls], h.thread[calls], python)
    parent = np.full(len(h), -1, np.intp)
    for thread in np.unique(h.thread[calls]).tolist():
        own = python[h.thread[python] == thread]
        above = parents(h.start[own], h.end[own])
        parent[own[above >= 0]] = own[above[above >= 0]]
    known: dict[int, tuple[Frame, ...]] = {-1: ()}

    def chain(slice_: int) -> tuple[Frame, ...]:
        unknown = []
        while slice_ not in known:
            unknown.append(slice_)
            slice_ = int(parent[slice_])
        for one in reversed(unknown):
            named = frame(t.host_name(one))
            known[one] = (named, *known[slice_]) if named else known[slice_]
            slice_ = one
        return known[slice_]

    return [chain(slice_) for slice_ in innermost.tolist()]


def frames_of(analyses: Iterable[Analysis]) -> Iterator[Frame]:
    """Yield the functions that ran in the recordings and are written in Python."""
    for a in analyses:
        names = np.unique(a.t.host.name[a.t.of_kind(Kind.PYTHON)])
        frames = (frame(a.t.trace.strings[name]) for name in names.tolist())
        yield from (one for one in frames if one is not None and one.file)


def frame(name: str) -> Frame | None:
    """Return what the profiler's name of a frame says; None where it is of neither kind."""
    if found := PYTHON_FRAME.match(name):
        return Frame(found["file"], int(found["line"]), found["function"])
    found = BUILT_IN.match(name)
    return Frame("", 0, found["name"]) if found else None
