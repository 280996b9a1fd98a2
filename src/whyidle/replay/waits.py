"""What calls wait for. A recording says how long a call took and not for what: that is told by what ended meanwhile.

A synchronisation waits for the operation that was queued last on its stream when it was called. Which stream that is,
is inferred: what it returns behind. "All streams" in its place replays some recordings 7 to 47% off.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, Mask, among, together
from whyidle.measure.transfer import SMALL_BYTES
from whyidle.model.evidence import Floats64, Ints
from whyidle.replay.operations import Operations

RETURN: Final = 5_000  # ns: a call that waits returns at most so much before what it waited for seems to end
LONG_WAIT: Final = 30_000  # ns: a call that takes so long waited
NEAR_END: Final = 50_000  # ns: of a wait whose end matches no operation that was queued last, how far we look
EVERY_STREAM: Final = -2  # target of a call that waits for the whole device

WHOLE_DEVICE: Final = re.compile(r"(?:Device|Ctx)Synchronize", re.IGNORECASE)
ONE_STREAM: Final = re.compile(r"StreamSynchronize", re.IGNORECASE)


def waits(a: Analysis, call: Index, own: Floats64, ops: Operations) -> tuple[Index, Floats64, Floats64]:
    """Return for each node the operation that it waits for, the time from its end to the return, and the own time.

    The target is what ended last, of the operations queued last on each stream, while the call lasted. A call that did
    not have to wait is held to the stream that it comes behind: it may have to, once something else has changed.
    """
    h, t = a.t.host, a.t
    target, ret, own_ = np.full(len(call), -1, np.intp), np.zeros(len(call)), own.copy()
    allocator = a.host.slices["allocator"]
    nodes = np.flatnonzero(among(call, together(a.host.waiting, allocator)))
    if not len(nodes) or not len(ops.row):
        return target, ret, own_
    start, end = h.start[call[nodes]], h.end[call[nodes]]
    last = queued_last(nodes, ops)
    ends = np.where(last >= 0, ops.ended[np.maximum(last, 0)], 0)
    during = (last >= 0) & (ends > start) & (ends <= end + RETURN)
    waited: Mask = np.zeros(len(nodes), np.bool_)
    waited[:] = during.any(axis=0)
    drained = ends.max(axis=0) <= end + RETURN
    allocates = among(call[nodes], allocator)
    waited &= ~allocates | drained
    latest = np.argmax(np.where(during, ends, -1), axis=0)
    target[nodes] = np.where(waited, last[latest, np.arange(len(nodes))], -1)
    by_end = np.argsort(ops.ended, kind="stable")
    for place in np.flatnonzero(~waited & ~allocates & (end - start > LONG_WAIT)).tolist():
        near = nearest(ops, by_end, int(nodes[place]), int(start[place]), int(end[place]))
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
    target[nodes[(wide & drained) | (allocates & waited)]] = EVERY_STREAM
    found_done = ~waited & ~allocates
    quick = float(np.median((end - start)[found_done])) if found_done.any() else float(RETURN)
    quick_ = np.where(allocates, ret[nodes], quick)
    own_[nodes] = np.where(waited, np.minimum(own_[nodes], quick_), own_[nodes])
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


def nearest(ops: Operations, by_end: Index, node: int, start: int, end: int) -> int:
    """Return the operation at whose end a call returns, of those launched before it; -1 none."""
    ends = ops.ended[by_end]
    low, high = np.searchsorted(ends, (max(start, end - NEAR_END), end + RETURN), "right")
    close = by_end[low:high]
    close = close[close < ops.first[node + 1]]
    return int(close[-1]) if len(close) else -1
