"""The graph of one rank's timeline: what happened in which order, how long each took by itself, and what it waited for.

Calls of the runtime, batches taken and step marks are nodes, in the order in which they happened; what a call put on
the device are its operations. What lies between two calls of a thread is host work, which is carried over as it was
(`gap`). All that is not in the recording is inferred, from when things ended: which operation a call waited for
(waits.py), which operation of another stream one waited for (operations.py), and how many launches a stream takes
before the host has to wait (queue.py). docs/method.md (Replay) has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.analysis import Analysis
from whyidle.measure.host import MAIN_SHARE
from whyidle.measure.input import kinds_of_loader
from whyidle.measure.rows import Index, among, distinct, together
from whyidle.model.evidence import Floats64, HostSlices, Ints
from whyidle.model.intervals import overlap, union
from whyidle.replay.loader import Loader
from whyidle.replay.operations import Operations
from whyidle.replay.queue import Queue, calibrate
from whyidle.replay.waits import waits

BESIDE: Final = 0.01  # of a thread's calls that may lie beside those of the thread with which it takes turns (method)
RESUMED: Final = 50_000  # ns: a second thread that rests so long goes on when the main thread has come so far


class Node(IntEnum):
    """What a node is."""

    CALL = 0  # of the runtime: launches, waits, or both
    TAKE = 1  # a batch from a loader with workers
    MARK = 2  # the boundary of a step


@dataclass(slots=True, eq=False)
class Graph:
    """One rank's timeline. Columns of nodes, then of operations; times in ns, those of nodes from `origin`."""

    rank: int | None
    origin: int  # ns of the recording at which the replay begins
    end: int  # and ends: the last mark
    numbers: tuple[int, ...]  # of the steps
    queue: Queue
    # nodes, by start
    kind: NDArray[np.uint8]
    thread: NDArray[np.int64]  # 0: the threads that drive the devices, which work in turn; others each their own
    call: Index  # row of HostSlices; -1 for marks
    start: Ints  # of the recording
    stop: Ints
    gap_start: Ints  # the host work before it, as recorded: [gap_start, start)
    gap: Floats64
    own: Floats64  # what the call takes itself, without waiting
    target: Index  # the operation that it waits for; -1 none, EVERY_STREAM
    ret: Floats64  # from the end of that to its return
    follows: Index  # node of the main thread whose return lets it go on; -1 none
    # operations, by node, in the order of their start
    first: Index  # of each node the place of its first operation; one more than nodes
    row: Index  # row of DeviceSlices
    stream: Index  # small number of (device, stream)
    latency: Floats64  # from the start of the call; -inf where the launch is not what it can wait for
    spacing: Floats64  # from the end of the operation before it on the stream
    dependency: Index  # an operation of another stream; -1 none
    lag: Floats64  # from the end of that
    duration: Floats64
    began: Ints  # in the recording
    back: Index  # of each node the operation that has to have ended for its launch to find room; -1 none
    room: Floats64  # of each node when what was launched before `origin` left room for its launch; -inf none
    tails: Floats64  # by stream: when what was launched before `origin` ends, from `origin`
    streams: tuple[tuple[int, int], ...]  # (device, stream)
    loader: Loader | None = None  # None: batches take as long as they did

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def steps(self) -> int:
        return len(self.numbers)


def build(a: Analysis, low: int, high: int, workers: int | None = None, prefetch: int = 2) -> Graph:
    """Return the graph of the steps `low` to `high` (exclusive), by their place in `a.t.steps`; they follow each other.

    `workers` of the loader and batches that each makes ahead, where known.
    """
    steps = a.t.steps
    origin, end = int(steps.start[low]), int(steps.end[high - 1])
    marks = np.append(steps.start[low:high], end)
    calls, lines = threads_of(a, origin, end)
    takes = batches(a, origin, end, calls)
    h = a.t.host
    start = np.concatenate((marks, h.start[calls], h.start[takes]))
    stop = np.concatenate((marks, h.end[calls], h.end[takes]))
    kind = np.repeat(np.array([Node.MARK, Node.CALL, Node.TAKE], np.uint8), [len(marks), len(calls), len(takes)])
    call = np.concatenate((np.full(len(marks), -1), calls, takes)).astype(np.intp)
    thread = np.concatenate((np.zeros(len(marks), np.int64), lines, np.zeros(len(takes), np.int64)))
    # of what starts together marks come first, except for the last, which ends all
    order = np.lexsort((kind != Node.MARK, start))
    start, stop, kind, call, thread = start[order], stop[order], kind[order], call[order], thread[order]
    begins, took = own_time(start, stop, thread, origin)
    ops = Operations.of(a, call, np.flatnonzero(kind == Node.CALL), origin)
    queue, back, room, held = calibrate(a.t, call, ops)
    own = np.where(np.isnan(held), took.astype(np.float64), held)
    target, ret, own = waits(a, call, own, ops)
    taken = [
        (asked - origin, got - origin)
        for asked, got in zip(h.start[takes].tolist(), h.end[takes].tolist(), strict=True)
    ]
    return Graph(
        a.t.trace.rank, origin, end, tuple(map(int, steps.number[low:high])), queue,
        kind, thread, call, start, stop, begins, (start - np.minimum(begins, start)).astype(np.float64),
        own, target, ret, resumption(thread, start, stop, begins),
        ops.first, ops.row, ops.stream, ops.latency, ops.spacing, ops.dependency, ops.lag, ops.duration, ops.began,
        back, room - origin, ops.tails, ops.streams, Loader.of(taken, workers, prefetch) if taken else None,
    )  # fmt: skip


def threads_of(a: Analysis, origin: int, end: int) -> tuple[Index, NDArray[np.int64]]:
    """Return the calls that launch or wait, in order, and for each the number of its logical thread.

    The main thread and autograd's take turns, so their calls are one sequence; so are those of any other thread that
    launches as much and takes turns, as where operators were not recorded. Others (that copy ahead, that log) go their
    own way.
    """
    t, h = a.t, a.t.host
    number = {thread: 0 for device in a.devices for thread in device.crew}
    standing = together(a.host.waiting, a.host.slices["allocator"])
    calls = together(t.launching, standing)
    calls = calls[(h.start[calls] >= origin) & (h.start[calls] < end)]
    launching = among(calls, t.launching)
    threads, count = np.unique(h.thread[calls[launching]], return_counts=True)
    for thread, many in sorted(zip(threads.tolist(), count.tolist(), strict=True), key=lambda one: -one[1]):
        if thread not in number:
            turns = many * MAIN_SHARE >= launching.sum() and takes_turns(h, calls, thread, number)
            number[thread] = 0 if turns else len(set(number.values()) | {0})
    calls = calls[launching | np.isin(h.thread[calls], [thread for thread, line in number.items() if line == 0])]
    return calls, np.array([number[int(thread)] for thread in h.thread[calls]], np.int64)


def takes_turns(h: HostSlices, calls: Index, thread: int, number: Mapping[int, int]) -> bool:
    """Say whether a thread calls while none of those that count as one does."""
    one = calls[np.isin(h.thread[calls], [other for other, line in number.items() if line == 0])]
    mine = calls[h.thread[calls] == thread]
    beside = overlap(h.start[mine], h.end[mine], union(h.start[one], h.end[one])) > 0
    return float(beside.mean()) <= BESIDE


def batches(a: Analysis, origin: int, end: int, calls: Index) -> Index:
    """Return the calls of `__next__` of loaders with workers, the outermost, in which nothing is launched."""
    h = a.t.host
    takes = kinds_of_loader(a)[1]
    takes = takes[(h.start[takes] >= origin) & (h.end[takes] <= end)]
    if not len(takes):
        return takes
    before = np.concatenate(([origin], np.maximum.accumulate(h.end[takes])[:-1]))
    takes = takes[h.start[takes] >= before]
    starts = h.start[calls]
    quiet = np.searchsorted(starts, h.start[takes]) == np.searchsorted(starts, h.end[takes])
    return np.asarray(takes[quiet])


def own_time(start: Ints, stop: Ints, thread: NDArray[np.int64], origin: int) -> tuple[Ints, Ints]:
    """Return for each node from when on its thread did something else before it, and its own time, ns.

    Of calls inside each other on one thread the outer's time is what is left of it.
    """
    begins, own = np.full(len(start), origin), np.zeros(len(start), np.int64)
    for line in distinct(thread):
        mine = np.flatnonzero(thread == line)
        over = np.concatenate(([origin], np.maximum.accumulate(stop[mine])[:-1]))
        begins[mine] = np.minimum(over, start[mine])
        own[mine] = np.maximum(stop[mine] - np.maximum(start[mine], over), 0)
    return begins, own


def resumption(thread: NDArray[np.int64], start: Ints, stop: Ints, begins: Ints) -> Index:
    """Return for each node of a second thread that had rested the main thread's last that had returned, else -1.

    Such threads copy or log what the main thread has made, or what it will need: they keep pace with it. A call in
    which the main thread stands meanwhile does not hold them up.
    """
    follows = np.full(len(start), -1, np.intp)
    main = np.flatnonzero(thread == 0)
    rested = np.flatnonzero((thread != 0) & (start - begins > RESUMED))
    if len(main) and len(rested):
        over = np.maximum.accumulate(stop[main])
        follows[rested] = main[np.maximum(np.searchsorted(over, start[rested], "right") - 1, 0)]
        follows[rested] = np.minimum(follows[rested], main[np.maximum(np.searchsorted(main, rested) - 1, 0)])
    return follows
