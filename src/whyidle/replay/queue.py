"""The launch queue: a stream takes so many launches, then the next call returns only when the oldest has ended.

That a launch stands because the queue is full is the GPU's time, not the host's: it is back-pressure, not launch cost.
How many the queue takes is read off such launches where there are enough of them (1,021 on a real recording); CUDA's
1,024 is assumed elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.measure import names
from whyidle.measure.rows import Index, distinct
from whyidle.measure.timeline import Timeline
from whyidle.model.evidence import Floats64, Ints
from whyidle.replay.operations import Operations

QUEUE: Final = 1024  # launches; "about 1000" by public measurements, 1,021 calibrated on HTA's ns_resolution_trace
FEWEST_HELD: Final = 20  # launches that were held up, to read the length of the queue off them (judgement)
SHORTEST: Final = 64  # launches that are outstanding when the queue may be full (judgement)
LONG: Final = 10_000  # ns, and
TIMES: Final = 3  # times the usual of the call: a launch that takes longer was held up
FEW: Final = 10  # launches by which the usual is known (judgement)
QUICK: Final = 5  # percent of the launches that are as quick: where none surely found room, these may have, and
LAUNCH: Final = 5_000  # ns: what a kernel's launch takes at most that finds room, where none did (as QUEUE)
NARROW: Final = 0.1  # of the median: held-up launches find the queue equally long, or it is something else
ALMOST: Final = 0.8  # of a full queue, and
LESS: Final = 3  # times the usual: of these launches the time is the queue's


@dataclass(frozen=True, slots=True)
class Queue:
    """How many launches a stream takes, and whether that was seen."""

    length: int
    seen: bool


def calibrate(t: Timeline, call: Index, ops: Operations) -> tuple[Queue, Index, Floats64, Floats64]:
    """Return the queue; by node the operation that has to have ended for its launch to find room, -1; its own time.

    Where that operation was launched before the replay begins, it is the third that counts: when it ended, -inf for
    others. The own time is that of launches that were held up, NaN for others.
    """
    h, d, first, row, stream = t.host, t.device, ops.first, ops.row, ops.stream
    before = {int(line): d.end[launched_once(t, ops.backlog[ops.backlog_stream == line])] for line in distinct(stream)}
    launches = np.flatnonzero(np.diff(first) > 0)
    launches = launches[t.launch[row[first[launches]]] >= 0]
    outstanding = np.zeros(len(call), np.int64)
    for line in distinct(stream):
        mine = launches[stream[first[launches]] == line]
        ends = np.sort(np.concatenate((before[int(line)], d.end[row[first[mine + 1] - 1]])))
        launched = len(before[int(line)]) + np.arange(len(mine))
        outstanding[mine] = launched - np.searchsorted(ends, h.end[call[mine]], "right") + 1
    took = np.zeros(len(call))
    usual = np.full(len(call), np.inf)
    took[launches] = h.end[call[launches]] - h.start[call[launches]]
    for name in distinct(h.name[call[launches]]):
        mine = launches[h.name[call[launches]] == name]
        kernel = names.KERNEL_LAUNCH.search(t.trace.strings[name]) and "Graph" not in t.trace.strings[name]
        usual[mine] = unhindered(took[mine], outstanding[mine], LAUNCH if kernel else np.inf)
    held = np.flatnonzero((outstanding >= SHORTEST) & (took > np.maximum(LONG, TIMES * usual)))
    free = np.setdiff1d(launches, held)
    queue = length(outstanding[held], int(outstanding[free].max(initial=0)))
    own = np.full(len(call), np.nan)
    stood = (outstanding > ALMOST * queue.length) & (took > LESS * usual)
    own[stood] = usual[stood]
    back, room = np.full(len(call), -1, np.intp), np.full(len(call), -np.inf)
    for line in distinct(stream):
        mine, earlier = launches[stream[first[launches]] == line], before[int(line)]
        at = len(earlier) + np.arange(len(mine)) - queue.length
        room[mine[(at >= 0) & (at < len(earlier))]] = earlier[at[(at >= 0) & (at < len(earlier))]]
        late = at >= len(earlier)
        back[mine[late]] = first[mine[at[late] - len(earlier)] + 1] - 1
    return queue, back, room, own


def launched_once(t: Timeline, rows: Index) -> Index:
    """Return of what had been launched before, in order of its end, the last operation of each launch."""
    rows = rows[np.argsort(t.device.end[rows], kind="stable")]
    launch = np.where(t.device.correlation[rows] >= 0, t.device.correlation[rows], -2 - rows)
    last = len(rows) - 1 - np.unique(launch[::-1], return_index=True)[1]
    return rows[np.sort(last)]


def unhindered(took: Floats64, outstanding: Ints, most: float) -> float:
    """Return what a launch takes that finds room, ns; `most` where none did.

    Not the median of all: of a GPU that is the limit, most launches stand, and the median is a wait.
    """
    room = took[outstanding < SHORTEST]
    if len(room) >= FEW:
        return float(np.median(room))
    return min(float(np.percentile(took, QUICK)), most)


def length(held: Ints, most: int) -> Queue:
    """Return the queue by how many launches were outstanding when one was held up, and when one was not, at most."""
    if len(held) >= FEWEST_HELD:
        low, middle, high = np.percentile(held, (25, 50, 75))
        if high - low <= NARROW * middle:
            return Queue(round(float(middle)), seen=True)
    return Queue(max(QUEUE, most + 1), seen=False)
