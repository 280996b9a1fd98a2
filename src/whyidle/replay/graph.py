"""The graph of one rank's timeline: what happened in which order, how long each took by itself, and what it waited for.

Calls of the runtime, batches taken and step marks are nodes, in the order in which they happened; what a call put on
the device are its operations. What lies between two calls of a thread is host work, which is carried over as it was
(`gap`). All that is not in the recording is inferred, from when things ended: which operation a call waited for, which
operation of another stream one waited for, and how many launches a stream takes before the host has to wait.
docs/method.md (Replay) has the rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.input import kinds_of_loader
from whyidle.measure.rows import Index, Mask, among, distinct
from whyidle.measure.timeline import pick
from whyidle.measure.transfer import SMALL_BYTES
from whyidle.model.evidence import Floats64, Ints, Kind
from whyidle.replay.loader import Loader
from whyidle.replay.queue import Queue, calibrate

# ns. An operation that waits for one of another stream starts within 8 us of its end (attribution.py); a call that
# waits returns within 5 us of what it waited for, or later.
CLOSE: Final = 8_000
RETURN: Final = 5_000
SLACK: Final = 1_000  # rounding to whole microseconds
UNEXPLAINED: Final = 10_000  # an operation that starts so much later than it could waited for something else
LATENCY: Final = 6_000  # from a launch to its start on an idle device, where none was seen: 5-11 us in recordings
SPACING: Final = 1_000  # between queued kernels, where none was seen
LONGEST_SPACING: Final = 30_000  # what is longer is no spacing between kernels
LONG_WAIT: Final = 30_000  # a call that takes so long waited
NEAR_END: Final = 50_000  # of a wait whose end matches no operation that was queued last, how far we look
RESUMED: Final = 50_000  # a second thread that rests so long goes on when the main thread has come so far
EVERY_STREAM: Final = -2  # target of a call that waits for the whole device

EVENT_RECORD: Final = re.compile(r"EventRecord", re.IGNORECASE)
STREAM_WAIT: Final = re.compile(r"StreamWaitEvent", re.IGNORECASE)
WHOLE_DEVICE: Final = re.compile(r"(?:Device|Ctx)Synchronize", re.IGNORECASE)
ONE_STREAM: Final = re.compile(r"StreamSynchronize", re.IGNORECASE)


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
    follows: Index  # node of the main thread whose progress lets it go on; -1 none
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
    start, stop, kind, call, thread = (column[order] for column in (start, stop, kind, call, thread))
    begins, own = own_time(start, stop, thread, origin)
    ops = Operations.of(a, call, kind, origin)
    queue, back, held = calibrate(a.t, call, ops.first, ops.row, ops.stream)
    own = np.where(np.isnan(held), own, held)
    target, ret, own = waits(a, call, own, ops)
    taken = [(asked - origin, got - origin) for asked, got in zip(h.start[takes].tolist(), h.end[takes].tolist(), strict=True)]
    return Graph(
        a.t.trace.rank, origin, end, tuple(map(int, steps.number[low:high])), queue,
        kind, thread, call, start, stop, begins, (start - np.minimum(begins, start)).astype(np.float64),
        own.astype(np.float64), target, ret, resumption(thread, start, begins),
        ops.first, ops.row, ops.stream, ops.latency, ops.spacing, ops.dependency, ops.lag, ops.duration, ops.began,
        back, ops.tails, ops.streams, Loader.of(taken, workers, prefetch) if taken else None,
    )  # fmt: skip


def threads_of(a: Analysis, origin: int, end: int) -> tuple[Index, NDArray[np.int64]]:
    """Return the calls that launch or wait, in order, and for each the number of its logical thread.

    The main thread and autograd's take turns, so their calls are one sequence. Other threads (that copy ahead, that
    log) go their own way.
    """
    t, h = a.t, a.t.host
    crew = list(dict.fromkeys(thread for device in a.devices for thread in device.crew))
    driving = a.host.waiting[np.isin(h.thread[a.host.waiting], crew)]
    calls = distinct(np.concatenate((t.launching, driving)))
    calls = calls[(h.start[calls] >= origin) & (h.start[calls] < end)]
    number = {thread: 0 for thread in crew}
    for thread in distinct(h.thread[calls]):
        number.setdefault(int(thread), len(set(number.values()) | {0}))
    return calls, np.array([number[int(thread)] for thread in h.thread[calls]], np.int64)


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


def resumption(thread: NDArray[np.int64], start: Ints, begins: Ints) -> Index:
    """Return for each node of a second thread that had rested the last node of the main thread before it, else -1.

    Such threads copy or log what the main thread has made, or what it will need: they keep pace with it.
    """
    follows = np.full(len(start), -1, np.intp)
    main = np.flatnonzero(thread == 0)
    rested = np.flatnonzero((thread != 0) & (start - begins > RESUMED))
    if len(main) and len(rested):
        follows[rested] = main[np.maximum(np.searchsorted(main, rested) - 1, 0)]
    return follows


@dataclass(slots=True, eq=False)
class Operations:
    """The operations of a graph; columns as there."""

    first: Index
    row: Index
    stream: Index
    latency: Floats64
    spacing: Floats64
    dependency: Index
    lag: Floats64
    duration: Floats64
    began: Ints
    ended: Ints
    tails: Floats64
    streams: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, a: Analysis, call: Index, kind: NDArray[np.uint8], origin: int) -> Operations:
        """Return the operations that these calls launched, with what each waited for."""
        t, d, h = a.t, a.t.device, a.t.host
        node_of = np.full(len(h) + 1, -1, np.intp)
        calls = np.flatnonzero(kind == Node.CALL)
        node_of[call[calls]] = calls
        used = np.isin(d.device, [device.device for device in a.devices])
        pairs, stream = np.unique(np.stack((d.device.astype(np.int64), d.stream)), axis=1, return_inverse=True)
        stream = stream.reshape(-1).astype(np.intp)
        node = np.where(t.launch >= 0, node_of[t.launch], -1)
        node = carried(node, t.launch, stream, d.start, origin)
        rows = np.flatnonzero(used & (node >= 0))
        rows = rows[np.lexsort((d.start[rows], node[rows]))]
        earlier = np.flatnonzero(used & (node < 0) & (d.start < d.start[rows[0]] if len(rows) else used))
        tails = np.zeros(pairs.shape[1])
        np.maximum.at(tails, stream[earlier], (d.end[earlier] - origin).astype(np.float64))
        stream, node = stream[rows], node[rows]
        began, ended = d.start[rows], d.end[rows]
        before = ended_before(stream, ended, tails, origin)
        launched = t.launch[rows]
        issued = pick(h.start, launched, np.iinfo(np.int64).min // 2)
        latency, spacing, idle = delays(d.kind[rows], launched, issued, began, before)
        dependency, lag = dependencies(a, launched, stream, d.device[rows], began, ended, idle, spacing)
        waited = dependency >= 0
        usual = typical_latency(d.kind[rows], launched, issued, began, before)
        binding = waited & (idle > UNEXPLAINED)
        latency = np.where(binding, np.minimum(latency, usual), latency)
        spacing = np.where(binding, typical_spacing(began - before, issued > before), spacing)
        first = np.searchsorted(node, np.arange(len(kind) + 1))
        return cls(
            first, rows, stream, latency, spacing, dependency, lag, (ended - began).astype(np.float64), began, ended,
            tails, tuple((int(device), int(number)) for device, number in pairs.T),
        )  # fmt: skip


def carried(node: Index, launch: Index, stream: Index, start: Ints, origin: int) -> Index:
    """Return the node of each operation; one whose launch was not recorded goes with the one before it on its stream."""
    lost = (launch < 0) & (start >= origin)
    if not lost.any():
        return node
    node = node.copy()
    for line in distinct(stream[lost]):
        mine = np.flatnonzero(stream == line)
        mine = mine[np.argsort(start[mine], kind="stable")]
        known = np.maximum.accumulate(node[mine])
        node[mine] = np.where(lost[mine], known, node[mine])
    return node


def ended_before(stream: Index, ended: Ints, tails: Floats64, origin: int) -> Ints:
    """Return for each operation when the one before it on its stream ended."""
    before = np.empty(len(stream), np.int64)
    for line in distinct(stream):
        mine = np.flatnonzero(stream == line)
        begins = origin + int(tails[line])
        before[mine] = np.concatenate(([begins], np.maximum.accumulate(ended[mine])[:-1]))
    return before


def typical_latency(kind: NDArray[np.uint8], launched: Index, issued: Ints, began: Ints, before: Ints) -> Floats64:
    """Return for each operation what one of its kind takes from its launch to its start on an idle stream, ns."""
    alone = (launched >= 0) & (issued >= before) & (began >= issued)
    usual = np.full(len(kind), float(LATENCY))
    for one in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET):
        took = (began - issued)[alone & (kind == one)]
        if len(took):
            usual[kind == one] = float(np.median(took))
    return usual


def typical_spacing(spacing: Ints, launched_late: Mask) -> float:
    """Return what lies between two operations on a stream that were queued, ns."""
    queued = spacing[~launched_late & (spacing >= 0) & (spacing <= LONGEST_SPACING)]
    return float(np.median(queued)) if len(queued) else float(SPACING)


def delays(
    kind: NDArray[np.uint8], launched: Index, issued: Ints, began: Ints, before: Ints
) -> tuple[Floats64, Floats64, Ints]:
    """Return the latency and the spacing of each operation, and how much later it began than these two explain, ns.

    Only one that was launched onto an idle stream shows its latency; one that was queued shows its spacing.
    """
    usual = typical_latency(kind, launched, issued, began, before)
    late = (launched >= 0) & (issued >= before)
    took = np.maximum(began - issued, 0).astype(np.float64)
    latency = np.where(late, took, np.minimum(took, usual))
    latency[launched < 0] = -np.inf
    apart = np.maximum(began - before, 0)
    usually = typical_spacing(began - before, late)
    spacing = np.where(late, np.minimum(apart, usually), apart).astype(np.float64)
    could = np.maximum(np.where(launched >= 0, issued + usual, -np.inf), before + usually)
    return latency, spacing, (began - could).astype(np.int64)


def dependencies(
    a: Analysis, launched: Index, stream: Index, device: NDArray[np.int32], began: Ints, ended: Ints, idle: Ints,
    spacing: Floats64,
) -> tuple[Index, Floats64]:  # fmt: skip
    """Return for each operation the one of another stream that it waits for, -1 none, and the time between them.

    One that begins later than its launch and its stream explain waits for what has just ended. Then what the program
    asked for: a stream waits for an event, which was recorded after another stream's last operation.
    """
    dependency, lag = np.full(len(stream), -1, np.intp), np.zeros(len(stream))
    by_end = np.argsort(ended, kind="stable")
    ends = ended[by_end]
    for j in np.flatnonzero(idle > UNEXPLAINED).tolist():
        place = int(np.searchsorted(ends, began[j] + SLACK, "right")) - 1
        while place >= 0 and ends[place] >= began[j] - CLOSE:
            other = int(by_end[place])
            if stream[other] != stream[j] and other < j:
                dependency[j], lag[j] = other, max(began[j] - ended[other], 0)
                break
            place -= 1
    for j, other in asked_for(a, launched, stream, device):
        if dependency[j] < 0 and ended[other] <= began[j] + SLACK:
            dependency[j], lag[j] = other, float(min(max(began[j] - ended[other], 0), SPACING))
    return dependency, lag


def asked_for(
    a: Analysis, launched: Index, stream: Index, device: NDArray[np.int32]
) -> list[tuple[int, int]]:  # (operation, the one it waits for)
    """Return the pairs that cudaEventRecord and cudaStreamWaitEvent ask for, as far as their order tells."""
    t, h = a.t, a.t.host
    records, waits_ = t.host_like(EVENT_RECORD, Kind.RUNTIME), t.host_like(STREAM_WAIT, Kind.RUNTIME)
    order = np.flatnonzero(launched >= 0)
    found: list[tuple[int, int]] = []
    if not len(waits_) or not len(records) or not len(order):
        return found
    issued, thread = h.start[launched[order]], h.thread[launched[order]]
    for line in distinct(h.thread[waits_]):
        mine = order[thread == line]
        mine_issued = issued[thread == line]
        recorded = h.start[records[h.thread[records] == line]]
        for when in h.start[waits_[h.thread[waits_] == line]].tolist():
            record = int(np.searchsorted(recorded, when)) - 1
            following = int(np.searchsorted(mine_issued, when))
            if record < 0 or following >= len(mine):
                continue
            j = int(mine[following])
            place = int(np.searchsorted(issued, recorded[record])) - 1
            while place >= 0 and (stream[order[place]] == stream[j] or device[order[place]] != device[j]):
                place -= 1
            if place >= 0 and order[place] < j:
                found.append((j, int(order[place])))
    return found


def waits(a: Analysis, call: Index, own: Ints, ops: Operations) -> tuple[Index, Floats64, Floats64]:
    """Return for each node the operation that it waits for, the time from its end to the return, and the own time.

    The target is what ended last, of the operations queued last on each stream, while the call lasted. A call that did
    not have to wait is held to the stream that it comes behind: it may have to, once something else has changed.
    """
    h, t = a.t.host, a.t
    target, ret, own_ = np.full(len(call), -1, np.intp), np.zeros(len(call)), own.astype(np.float64)
    nodes = np.flatnonzero(among(call, a.host.waiting))
    if not len(nodes) or not len(ops.row):
        return target, ret, own_
    start, end = h.start[call[nodes]], h.end[call[nodes]]
    last = queued_last(nodes, ops)
    ends = np.where(last >= 0, ops.ended[np.maximum(last, 0)], 0)
    during = (last >= 0) & (ends > start) & (ends <= end + RETURN)
    waited = during.any(axis=0)
    latest = np.argmax(np.where(during, ends, -1), axis=0)
    target[nodes] = np.where(waited, last[latest, np.arange(len(nodes))], -1)
    for place in np.flatnonzero(~waited & (end - start > LONG_WAIT)).tolist():
        near = nearest(ops, int(nodes[place]), int(start[place]), int(end[place]))
        if near >= 0:
            target[nodes[place]], waited[place] = near, True
    copies, own_copy = copied(a, nodes, end, ops)
    target[nodes[copies]] = own_copy[copies]
    waited[copies] = (own_copy[copies] >= 0) & (end - start > LONG_WAIT)[copies]
    ret[nodes] = np.where(waited, np.maximum(end - ops.ended[np.maximum(target[nodes], 0)], 0), 0)
    typical = float(np.median(ret[nodes[waited]])) if waited.any() else float(RETURN)
    ret[nodes[~waited]] = typical
    wide, one = (t.strings_like(pattern)[h.name[call[nodes]]] for pattern in (WHOLE_DEVICE, ONE_STREAM))
    for place in np.flatnonzero(~waited & one).tolist():
        behind = int(ops.first[nodes[place]]) - 1
        would = int(last[ops.stream[behind], place]) if behind >= 0 else -1
        if would >= 0 and ops.ended[would] <= end[place] + RETURN:
            target[nodes[place]] = would
    target[nodes[wide & (ends <= end + RETURN).all(axis=0)]] = EVERY_STREAM
    quick = float(np.median((end - start)[~waited])) if (~waited).any() else float(RETURN)
    own_[nodes] = np.where(waited, np.minimum(own_[nodes], quick), own_[nodes])
    return target, ret, own_


def copied(a: Analysis, nodes: Index, end: Ints, ops: Operations) -> tuple[Mask, Index]:
    """Return which of these calls copy between host and device, and the copy that each waits for, -1 none.

    From pinned memory nobody waits, and a small piece of pageable memory travels with the call. Where the recording
    does not say which memory it was, a call that returned before its copy had ended did not wait.
    """
    t, d = a.t, a.t.device
    first, after = ops.first[nodes], ops.first[nodes + 1]
    copies = after > first
    own = np.where(copies, after - 1, 0)
    row = ops.row[own]
    pinned = t.strings_like(names.PINNED)[d.name[row]]
    pageable = t.strings_like(names.PAGEABLE)[d.name[row]]
    up = t.strings_like(names.HOST_TO_DEVICE)[d.name[row]]
    travels = pageable & up & (d.bytes[row] >= 0) & (d.bytes[row] <= SMALL_BYTES)
    done = ops.ended[own] <= end + RETURN
    return copies, np.where(copies & ~pinned & ~travels & done, own, -1)


def queued_last(nodes: Index, ops: Operations) -> NDArray[np.intp]:
    """Return by stream and node the operation that was queued last when the node's call waits; -1 none."""
    reached = ops.first[nodes + 1]
    last = np.full((len(ops.streams), len(nodes)), -1, np.intp)
    for line in range(len(ops.streams)):
        mine = np.flatnonzero(ops.stream == line)
        if len(mine):
            place = np.searchsorted(mine, reached) - 1
            last[line] = np.where(place >= 0, mine[np.maximum(place, 0)], -1)
    return last


def nearest(ops: Operations, node: int, start: int, end: int) -> int:
    """Return the operation at whose end a call returns, of those launched before it; -1 none."""
    ends = ops.ended[: ops.first[node + 1]]
    close = np.flatnonzero((ends > max(start, end - NEAR_END)) & (ends <= end + RETURN))
    return int(close[np.argmax(ends[close])]) if len(close) else -1
