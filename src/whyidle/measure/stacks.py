"""In which functions of the job does its host wait for the GPU, in which calls does the GPU wait for it?

Python frames (`with_stack=True`) stand around each wait. A frame names its file, its function and a line: the first of
the function, or, of one that ran already when the recording began, the line that it was at. Recordings of 2021, and of
today where the profiler is asked to be verbose, have a call stack with each operator instead: the lines that ran.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whyidle.measure import sync
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, Mask
from whyidle.measure.timeline import Timeline, parents, pick
from whyidle.model.evidence import Kind
from whyidle.model.finding import Location
from whyidle.model.intervals import overlap

PYTHON_FRAME = re.compile(r"^(?P<file>.+\.(?:py|ipynb|pyx)|<ipython-input[^>]*>)\((?P<line>\d+)\): (?P<function>.+)$")
BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<name>\w+)")


class Frame(NamedTuple):
    """A Python function that is running; of one that is written in C only its name is known."""

    file: str
    line: int
    function: str
    exact: bool = False  # the line is the one that ran


@dataclass(frozen=True, slots=True)
class StackedWait:
    """Waits of one kind below the same Python frames."""

    kind: str  # as measure/sync.py sorts waits; "" for those that no rule speaks of
    frames: tuple[Frame, ...]  # innermost first
    count: int
    per_step: float | None  # None: there are no steps
    lost_share: float  # of the window: idle behind them that a host running ahead would have filled
    worst_share: float  # the same of the rank that loses most, of its own window
    location: Location  # of the one that costs most


@dataclass(frozen=True, slots=True)
class IdleCall:
    """Calls of one function by another, during which the GPU runs dry and waits for the host."""

    caller: Frame
    called: str
    count: int
    idle_share: float  # of the window
    location: Location  # of the call in which it idles longest


@dataclass(frozen=True, slots=True)
class Stacks:
    """All waits with their frames, calls with idle time, and the functions that ran; empty without frames."""

    waits: tuple[StackedWait, ...] = ()
    calls: tuple[IdleCall, ...] = ()
    ran: frozenset[Frame] = frozenset()  # in the steps, on threads that drive the GPU
    called: frozenset[tuple[Frame, str]] = frozenset()  # and what they called there


def measure(analyses: Sequence[Analysis]) -> Stacks:
    """Return the waits of all ranks by what they happen in. Shares are of the windows of all ranks together."""
    framed = [a for a in analyses if has_frames(a) and len(a.t.of_kind(Kind.RUNTIME))]
    if not framed:
        return Stacks()
    window = sum(a.device_window for a in framed)
    steps = sum(a.steps for a in framed)
    found: dict[tuple[str, tuple[Frame, ...]], list[tuple[int, Location]]] = {}
    worst: dict[tuple[str, tuple[Frame, ...]], float] = {}
    for a in framed:
        mine: Counter[tuple[str, tuple[Frame, ...]]] = Counter()
        for kind, frames, lost, place in of_rank(a):
            found.setdefault((kind, frames), []).append((lost, place))
            mine[kind, frames] += lost
        worst.update({key: max(worst.get(key, 0.0), a.share(lost)) for key, lost in mine.items()})
    waits = (
        StackedWait(
            kind,
            frames,
            len(each),
            len(each) / steps if steps else None,
            sum(lost for lost, _ in each) / max(window, 1),
            worst[kind, frames],
            max(each, key=lambda one: one[0])[1],
        )
        for (kind, frames), each in found.items()
    )
    calls = (call for a in framed for call in idle_calls(a, window))
    return Stacks(
        tuple(sorted(waits, key=lambda wait: -wait.lost_share)),
        tuple(sorted(calls, key=lambda call: -call.idle_share)),
        frozenset(frame for a in framed for frame in frames_of(a, in_steps(a))),
        frozenset(pair for a in framed for pair in pairs_of(a, in_steps(a))),
    )


def has_frames(a: Analysis) -> bool:
    """Say whether a recording tells which Python functions ran."""
    return bool(len(a.t.of_kind(Kind.PYTHON)) or (a.t.host.stacks >= 0).any())


def of_rank(a: Analysis) -> Iterator[tuple[str, tuple[Frame, ...], int, Location]]:
    """Yield each wait in the steps: its kind, its frames, what is lost behind it in ns, and where it is."""
    waits = sync.find(a)
    if not len(waits.call):
        return
    lost = np.sum(sync.all_gains(a, waits), axis=0)
    framed, stacked = chains(a.t, waits.call), call_stacks(a.t, waits.call)
    around = [frames or stack for frames, stack in zip(framed, stacked, strict=True)]
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


def call_stacks(t: Timeline, calls: Index) -> list[tuple[Frame, ...]]:
    """Return the call stacks of the operators around these host slices, innermost frame first."""
    operators = t.of_kind(Kind.OP)
    operators = operators[t.host.stacks[operators] >= 0]
    around = t.enclosing(t.host.start[calls], t.host.thread[calls], operators)
    codes = pick(t.host.stacks, around, -1).tolist()
    known = {code: stack(t.trace.strings[code]) for code in set(codes) if code >= 0}
    return [known.get(code, ()) for code in codes]


def stack(text: str) -> tuple[Frame, ...]:
    """Return the frames of a call stack: "train.py(12): step;train.py(30): <module>"."""
    frames = (frame(name.strip()) for name in text.split(";"))
    return tuple(one._replace(exact=True) for one in frames if one is not None)


def idle_calls(a: Analysis, window: int) -> Iterator[IdleCall]:
    """Yield which function calls which while the GPU of a rank idles because the host is late."""
    h, threads = a.t.host, a.t.launched_threads
    python = a.t.of_kind(Kind.PYTHON)
    python = python[np.isin(h.thread[python], threads)]
    parent = np.full(len(python), -1, np.intp)
    for thread in threads.tolist():
        own = np.flatnonzero(h.thread[python] == thread)
        above = parents(h.start[python[own]], h.end[python[own]])
        parent[own[above >= 0]] = own[above[above >= 0]]
    idle = sum(
        (overlap(h.start[python], h.end[python], device.late_idle) for device in a.devices), np.zeros(len(python))
    )
    rows = np.flatnonzero((parent >= 0) & (idle > 0))
    pairs = np.stack((h.name[python[parent[rows]]], h.name[python[rows]]), axis=1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    which = which.reshape(-1)
    groups = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1]) if len(rows) else []
    for (caller, called), group in zip(distinct.tolist(), groups, strict=True):
        here = rows[group]
        by, what = frame(a.t.trace.strings[caller]), frame(a.t.trace.strings[called])
        if by is not None and by.file and what is not None:
            longest = int(python[here[np.argmax(idle[here])]])
            place = a.t.location(int(h.start[longest]), int(h.end[longest]), a.t.trace.strings[called])
            yield IdleCall(by, what.function, len(here), float(idle[here].sum()) / max(window, 1), place)


def named(analyses: Iterable[Analysis]) -> frozenset[Frame]:
    """Return all functions written in Python that recordings name, of all threads, in the steps or not."""
    return frozenset(frame for a in analyses for frame in frames_of(a, np.ones(len(a.t.host), np.bool_)))


def in_steps(a: Analysis) -> Mask:
    """Return the host slices that ran, for a part of their time, in the steps, on threads that drive the GPU."""
    h = a.t.host
    mine: Mask = np.isin(h.thread, a.t.launched_threads)
    if a.steps:
        low, high = a.t.steps.span
        mine &= (h.start < high) & (h.end > low)
    return mine


def frames_of(a: Analysis, among: Mask) -> Iterator[Frame]:
    """Yield the functions written in Python among host slices, and the lines of operators there."""
    h, python = a.t.host, a.t.of_kind(Kind.PYTHON)
    names = np.unique(h.name[python[among[python]]])
    frames = (frame(a.t.trace.strings[name]) for name in names.tolist())
    yield from (one for one in frames if one is not None and one.file)
    for code in np.unique(h.stacks[(h.stacks >= 0) & among]).tolist():
        yield from stack(a.t.trace.strings[code])


def pairs_of(a: Analysis, among: Mask) -> Iterator[tuple[Frame, str]]:
    """Yield which function calls which among host slices."""
    h, python = a.t.host, a.t.of_kind(Kind.PYTHON)
    python = python[among[python]]
    codes = [np.empty(0, np.int64)]
    for thread in np.unique(h.thread[python]).tolist():
        own = python[h.thread[python] == thread]
        above = parents(h.start[own], h.end[own])
        below = own[above >= 0]
        codes.append(h.name[own[above[above >= 0]]].astype(np.int64) << 32 | h.name[below])
    for code in np.unique(np.concatenate(codes)).tolist():
        by, what = frame(a.t.trace.strings[code >> 32]), frame(a.t.trace.strings[code & 0xFFFFFFFF])
        if by is not None and by.file and what is not None:
            yield by, what.function


def frame(name: str) -> Frame | None:
    """Return what the profiler's name of a frame says; None where it is of neither kind."""
    if found := PYTHON_FRAME.match(name):
        return Frame(found["file"], int(found["line"]), found["function"])
    found = BUILT_IN.match(name)
    return Frame("", 0, found["name"]) if found else None
