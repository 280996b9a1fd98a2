"""The operations of a graph: what each waits for before it begins, by when everything began and ended.

An operation that was launched onto an idle stream shows how long a launch travels; one that was queued shows the pause
between two. One that begins later than both explain waited for another stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, Mask, distinct
from whyidle.measure.timeline import pick
from whyidle.model.evidence import Floats64, Ints, Kind

# ns. An operation that waits for one of another stream starts within 8 us of its end (attribution.py).
CLOSE: Final = 8_000
SLACK: Final = 1_000  # rounding to whole microseconds
UNEXPLAINED: Final = 10_000  # an operation that starts so much later than it could waited for something else
LATENCY: Final = 6_000  # from a launch to its start on an idle device, where none was seen: 5-11 us in recordings
SPACING: Final = 1_000  # between queued kernels, where none was seen
LONGEST_SPACING: Final = 30_000  # what is longer is no spacing between kernels

EVENT_RECORD: Final = re.compile(r"EventRecord", re.IGNORECASE)
STREAM_WAIT: Final = re.compile(r"StreamWaitEvent", re.IGNORECASE)


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
    backlog: Index  # rows of what was launched before the replay begins
    backlog_stream: Index

    @classmethod
    def of(cls, a: Analysis, call: Index, calls: Index, origin: int) -> Operations:
        """Return the operations that nodes launched, with what each waited for; `calls` are those nodes that call."""
        t, d, h = a.t, a.t.device, a.t.host
        node_of = np.full(len(h) + 1, -1, np.intp)
        node_of[call[calls]] = calls
        used = np.isin(d.device, [device.device for device in a.devices])
        pairs, stream = np.unique(np.stack((d.device.astype(np.int64), d.stream)), axis=1, return_inverse=True)
        stream = stream.reshape(-1).astype(np.intp)
        node = np.where(t.launch >= 0, node_of[t.launch], -1)
        node = carried(node, t.launch, stream, d.start, origin, calls, h.start[call[calls]])
        rows = np.flatnonzero(used & (node >= 0))
        rows = rows[np.lexsort((d.start[rows], node[rows]))]
        earlier = np.flatnonzero(used & (node < 0) & (pick(h.start, t.launch, origin - 1) < origin))
        backlog_stream = stream[earlier]
        tails = np.zeros(pairs.shape[1])
        np.maximum.at(tails, stream[earlier], (d.end[earlier] - origin).astype(np.float64))
        stream, node = stream[rows], node[rows]
        began, ended = d.start[rows], d.end[rows]
        before = ended_before(stream, np.arange(len(rows)), ended, tails, origin)
        launched = t.launch[rows]
        issued = pick(h.start, launched, np.iinfo(np.int64).min // 2)
        idle_since = ended_before(d.device[rows].astype(np.intp), began, ended, np.zeros(0), origin)
        usual = typical_latency(d.kind[rows], launched, issued, began, np.maximum(before, idle_since))
        latency, spacing, idle = delays(usual, launched, issued, began, before)
        dependency, lag = dependencies(a, launched, stream, d.device[rows], began, ended, idle)
        waited = dependency >= 0
        binding = waited & (idle > UNEXPLAINED)
        latency = np.where(binding, np.minimum(latency, usual), latency)
        spacing = np.where(binding, typical_spacing(began - before, issued > before), spacing)
        first = np.searchsorted(node, np.arange(len(call) + 1))
        return cls(
            first, rows, stream, latency, spacing, dependency, lag, (ended - began).astype(np.float64), began, ended,
            tails, tuple((int(device), int(number)) for device, number in pairs.T), earlier, backlog_stream,
        )  # fmt: skip


def carried(node: Index, launch: Index, stream: Index, start: Ints, origin: int, calls: Index, called: Ints) -> Index:
    """Return the node of each operation: where its launch was not recorded, that of the one before it on its stream.

    Of a stream of which no launch was recorded it is the last call before it. What began on a stream before anything
    whose launch is known had been launched before the replay begins.
    """
    lost = (launch < 0) & (start >= origin)
    if not lost.any():
        return node
    node = node.copy()
    for line in distinct(stream[lost]):
        mine = np.flatnonzero(stream == line)
        mine = mine[np.argsort(start[mine], kind="stable")]
        if (node[mine] < 0).all() and (launch[mine] < 0).all() and len(calls):
            place = np.searchsorted(called, start[mine], "right") - 1
            node[mine] = np.where(lost[mine] & (place >= 0), calls[np.maximum(place, 0)], -1)
            continue
        known = np.maximum.accumulate(node[mine])
        node[mine] = np.where(lost[mine], known, node[mine])
    return node


def ended_before(line: Index, order: Ints, ended: Ints, tails: Floats64, origin: int) -> Ints:
    """Return for each operation when those before it on its line had ended: a stream, or a whole device."""
    before = np.empty(len(line), np.int64)
    for one in distinct(line):
        mine = np.flatnonzero(line == one)
        mine = mine[np.argsort(order[mine], kind="stable")]
        begins = origin + int(tails[one]) if one < len(tails) else origin
        before[mine] = np.concatenate(([begins], np.maximum.accumulate(ended[mine])[:-1]))
    return before


def typical_latency(kind: NDArray[np.uint8], launched: Index, issued: Ints, began: Ints, idle_since: Ints) -> Floats64:
    """Return for each operation what one of its kind takes from its launch to its start on an idle device, ns.

    Where only its stream is idle, it may wait for another stream: collectives do, that are launched far ahead.
    """
    alone = (launched >= 0) & (issued >= idle_since) & (began >= issued)
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
    usual: Floats64, launched: Index, issued: Ints, began: Ints, before: Ints
) -> tuple[Floats64, Floats64, Ints]:
    """Return the latency and the spacing of each operation, and how much later it began than these two explain, ns.

    One that was queued shows its spacing; one that was not shows its latency. A launch that comes while the operation
    before it still runs, but so late that its latency outlasts that, was not queued: what it leaves idle is no spacing,
    and a faster host would fill it.
    """
    late = (launched >= 0) & (issued + usual >= before + SPACING)
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
    others = [order[device[order] == one] for one in range(int(device.max(initial=-1)) + 1)]
    begins = [run_starts(stream[mine]) for mine in others]
    found: list[tuple[int, int]] = []
    if not len(waits_) or not len(records) or not len(order):
        return found
    issued, thread = h.start[launched[order]], h.thread[launched[order]]
    by_device = [h.start[launched[mine]] for mine in others]
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
            mates = others[device[j]]
            place = int(np.searchsorted(by_device[device[j]], recorded[record])) - 1
            if place >= 0 and stream[mates[place]] == stream[j]:
                place = int(begins[device[j]][place]) - 1
            if place >= 0 and mates[place] < j:
                found.append((j, int(mates[place])))
    return found


def run_starts(stream: Index) -> Index:
    """Return for each operation the place of the first of those on its stream that follow each other up to it."""
    places = np.arange(len(stream))
    begins = np.concatenate(([True], stream[1:] != stream[:-1]))[: len(stream)]
    return np.maximum.accumulate(np.where(begins, places, 0))
