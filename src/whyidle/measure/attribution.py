"""Each idle nanosecond of a device gets exactly one cause.

A gap ends with an operation. If that was launched before the gap began, the GPU had work and did not start
it: the causes of `queued`. If it was launched later, the host was late: from the start of the gap to the launch
call the causes of `HOST_CAUSES`, the first that applies, and launch latency from there on.
The causes of a gap are disjoint and sum to the gap (tests/laws/test_attribution.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.host import HostCauses
from whyidle.measure.rows import Index, Mask, among, distinct
from whyidle.measure.timeline import pick
from whyidle.model.evidence import Ints
from whyidle.model.finding import CAUSES
from whyidle.model.intervals import (
    NOTHING,
    Intervals,
    clip,
    complement,
    intersect,
    subtract,
    union,
)

CODE = {cause: code for code, cause in enumerate(CAUSES)}

# ns. In nine of ten recordings that we have 95% of the gaps between queued kernels are shorter than 9 us; HTA's
# consecutive_kernel_delay is 30 in the trace's unit, in practice us. An operation that waits for one of another stream
# starts within 8 us of its end (kineto resnet50 and HTA recordings).
KERNEL_GAP = 30_000
STREAM_WAIT = 8_000
# A launch that takes longer than this many times the median did not merely travel: on an idle GPU the median is 5-26 us
# and in three of four recordings the 99th percentile below 41 us. The factor is a judgement.
SLOW_LAUNCH = 5
SLOW_LAUNCH_FLOOR = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The idle time of one device: [start, end) ns, and the operation that ends each gap."""

    span: Intervals
    next_op: Index  # device slice, -1 for the gap at the end of the window
    launch: Index  # host slice that launched it, -1 unknown

    def __len__(self) -> int:
        return len(self.span)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Idle time with its cause, in any order. `gap` is the index of the gap that a piece belongs to."""

    start: Ints
    end: Ints
    cause: NDArray[np.int8]
    gap: Index

    def of(self, cause: str) -> Intervals:
        mine = self.cause == CODE[cause]
        return union(self.start[mine], self.end[mine])


class Attribution:
    """The idle time of one device, explained."""

    def __init__(self, host: HostCauses, device: int) -> None:
        self.host, self.t, self.device = host, host.t, device
        self.low, self.high = self.t.window(device)
        self.siblings: Sequence[Attribution] = ()  # the other devices that this process works on

    @cached_property
    def ops(self) -> Index:
        """Return the device slices of this device that touch the window."""
        d = self.t.device
        return np.flatnonzero((d.device == self.device) & (d.end > self.low) & (d.start < self.high))

    @cached_property
    def busy(self) -> Intervals:
        """Return the union of kernels, copies and fills over the window."""
        d = self.t.device
        return clip(union(d.start[self.ops], d.end[self.ops]), self.low, self.high)

    @property
    def idle(self) -> int:
        """Return the idle time of the window, ns."""
        return self.high - self.low - self.busy.total

    @cached_property
    def gaps(self) -> Gaps:
        """Return the complement of `busy`; of operations that start together, the one launched first ends the gap."""
        t = self.t
        span = complement(self.busy, self.low, self.high)
        starts = t.device.start[self.ops]
        if not len(starts):  # all work of this device lies outside the window
            return Gaps(span, np.full(len(span), -1, np.intp), np.full(len(span), -1, np.intp))
        place = np.minimum(np.searchsorted(starts, span.end, "left"), len(starts) - 1)
        ends_with_op = (starts[place] == span.end) & (span.end < self.high)
        following = np.minimum(place + 1, len(starts) - 1)
        for row in np.flatnonzero(ends_with_op & (following > place) & (starts[following] == starts[place])):
            last = int(np.searchsorted(starts, span.end[row], "right"))
            launch = t.launch[self.ops[place[row] : last]]
            place[row] += int(np.argmin(pick(t.host.start, launch, np.iinfo(np.int64).max)))
        next_op = np.where(ends_with_op, self.ops[place], -1)
        launch = pick(t.launch, next_op, -1)
        return Gaps(span, next_op, launch)

    @cached_property
    def launch_start(self) -> Ints:
        """Return for each gap when its operation was launched; the end of the gap where that is not known, or later.

        A launch after the start of its operation means that the clocks of host and device disagree.
        """
        g = self.gaps
        return np.minimum(pick(self.t.host.start, g.launch, g.span.end), g.span.end)

    @cached_property
    def late(self) -> Mask:
        """Return for each gap whether the host launched its operation only after the GPU had run dry.

        The gap at the end of the window ends with no operation: there, too, nothing had been launched.
        """
        g = self.gaps
        known = (g.launch >= 0) & (self.launch_start > g.span.start)
        return known | ((g.next_op < 0) & bool(self.crew))

    @cached_property
    def latency(self) -> float | None:
        """Return the median time from a launch call to the start of its operation on an idle GPU, ns."""
        rows = self.late & (self.gaps.launch >= 0)
        took = (self.gaps.span.end - self.launch_start)[rows]
        return float(np.median(took)) if len(took) else None

    @cached_property
    def pieces(self) -> Pieces:
        """Return all idle time, each piece with its cause."""
        parts = [self.queued(), self.launching(), *self.waiting_for_host()]
        return Pieces(
            np.concatenate([p.start for p in parts]),
            np.concatenate([p.end for p in parts]),
            np.concatenate([p.cause for p in parts]),
            np.concatenate([p.gap for p in parts]),
        )

    @cached_property
    def in_call(self) -> Mask:
        """Return for each gap whether its launch call began before the gap and returned well inside it.

        A launch takes microseconds; one that takes this long loads code, compiles, or waits for a lock of the driver.
        """
        g = self.gaps
        returned = pick(self.t.host.end, g.launch, 0)
        began = (g.launch >= 0) & (self.launch_start <= g.span.start)
        return began & (np.minimum(returned, g.span.end) - g.span.start > KERNEL_GAP)

    @cached_property
    def totals(self) -> dict[str, int]:
        """Return idle ns by cause, every cause named."""
        p = self.pieces
        sums = np.bincount(p.cause, weights=p.end - p.start, minlength=len(CAUSES))
        return {cause: int(sums[code]) for cause, code in CODE.items()}

    def queued(self) -> Pieces:
        """Return the gaps before operations that had been launched in time, or of which the launch is not known."""
        rows = np.flatnonzero(~self.late & ~self.in_call)
        g, d = self.gaps, self.t.device
        length = g.span.lengths[rows]
        op = g.next_op[rows]
        cause = self.stalled(rows)
        cause[length <= KERNEL_GAP] = CODE["kernel_gap"]
        short = np.flatnonzero(length <= STREAM_WAIT)
        short = short[d.stream[op[short]] != self.previous_stream(rows[short])]
        cause[short] = CODE["stream_wait"]
        cause[(g.launch[rows] < 0) | (op < 0)] = CODE["unknown"]
        return Pieces(g.span.start[rows], g.span.end[rows], cause, rows)

    def stalled(self, rows: Index) -> NDArray[np.int8]:
        """Return why launched operations did not start: collectives wait for a peer, of others nothing is known."""
        collective = self.t.strings_like(names.COLLECTIVE)[self.t.device.name[self.gaps.next_op[rows]]]
        return np.where(collective, CODE["peer_wait"], CODE["queue_stall"]).astype(np.int8)

    def previous_stream(self, rows: Index) -> Ints:
        """Return for each of these gaps the stream of the operation at whose end it begins."""
        d = self.t.device
        order = self.ops[np.argsort(d.end[self.ops], kind="stable")]
        place = np.searchsorted(d.end[order], self.gaps.span.start[rows], "right") - 1
        return pick(d.stream[order], place, -1)

    def launching(self) -> Pieces:
        """Return gaps from the launch call on: latency, then a call that took too long, then a wait nobody explains."""
        g, t = self.gaps, self.t
        rows = np.flatnonzero((self.late & (g.launch >= 0)) | self.in_call)
        start, end = np.maximum(self.launch_start[rows], g.span.start[rows]), g.span.end[rows]
        latency = np.where(self.late[rows], int(max(SLOW_LAUNCH * (self.latency or 0), SLOW_LAUNCH_FLOOR)), 0)
        travelled = np.minimum(start + latency, end)
        returned = np.maximum(np.minimum(t.host.end[g.launch[rows]], end), travelled)
        up = among(g.launch[rows], self.host.copies[0])
        slow = np.where(among(g.launch[rows], self.host.first_uses), CODE["compile"], CODE["dispatch"])
        rest = np.where(end - returned <= KERNEL_GAP, CODE["launch_latency"], self.stalled(rows))
        cause = np.concatenate((np.full(len(rows), CODE["launch_latency"]), np.where(up, CODE["h2d_prep"], slow), rest))
        starts = np.concatenate((start, travelled, returned))
        ends = np.concatenate((travelled, returned, end))
        keep = ends > starts
        return Pieces(starts[keep], ends[keep], cause.astype(np.int8)[keep], np.tile(rows, 3)[keep])

    @cached_property
    def crew(self) -> list[int]:
        """Return the threads that drive this device, the main one first; empty where no launch is known."""
        launched = self.t.launch[(self.t.launch >= 0) & (self.t.device.device == self.device)]
        return self.host.crew(launched) if len(launched) else []

    def waiting_for_host(self) -> list[Pieces]:
        """Return the part of late gaps before the launch call, by what the host was doing.

        First what the launching thread did itself; where it did nothing that was recorded, what the others of the crew
        did (autograd launches from a thread of its own while the main thread waits for it).
        """
        g = self.gaps
        parts: list[Pieces] = []
        late = np.flatnonzero(self.late)
        if not len(late) or not self.crew:
            return parts
        thread_of = pick(self.t.host.thread, g.launch[late], self.crew[0])
        # a prefetcher's copy may end a gap; that the GPU had nothing to do was the main thread's doing
        thread_of[~np.isin(thread_of, self.crew)] = self.crew[0]
        for thread in distinct(thread_of):
            rows = late[thread_of == thread]
            end = np.where(g.next_op[rows] >= 0, self.launch_start[rows], g.span.end[rows])
            left = Intervals(g.span.start[rows], end)
            for cause, spans in (("unknown", self.unrecorded), ("peer_wait", self.elsewhere)):
                left, rows, found = split(left, rows, cause, spans)
                parts += found
            parts += doing(self.host, left, rows, int(thread), self.crew)
        return parts

    @property
    def between_nodes(self) -> Intervals:
        """Return when the backward pass is between two of its nodes."""
        return self.host.between_nodes(self.crew)

    @cached_property
    def unrecorded(self) -> Intervals:
        """Return the time between steps that do not follow each other, as far as nothing ran: the profiler was off."""
        holes, starts = self.t.steps.unrecorded, np.sort(self.t.device.start)
        empty = np.searchsorted(starts, holes.start) == np.searchsorted(starts, holes.end)
        return Intervals(holes.start[empty], holes.end[empty])

    @cached_property
    def elsewhere(self) -> Intervals:
        """Return when this device waits for another one of its process, which works.

        That another works is no proof. What shows it is data that passes between them when the gap ends.
        """
        if not self.siblings:
            return NOTHING
        g = self.gaps
        handed = np.sort(self.t.device.end[self.t.between_devices])
        first = np.searchsorted(handed, g.span.start, "right")
        rows = np.searchsorted(handed, g.span.end, "right") > first
        rows |= np.isin(g.next_op, self.t.between_devices)
        waits = Intervals(g.span.start[rows], g.span.end[rows])
        return intersect(waits, merged([other.busy for other in self.siblings]))[0]

    @cached_property
    def late_idle(self) -> Intervals:
        """Return the idle time for which the host was late: of late gaps the part before the launch call."""
        g, rows = self.gaps, np.flatnonzero(self.late)
        end = np.where(g.next_op >= 0, self.launch_start, g.span.end)
        late = Intervals(g.span.start[rows], end[rows])
        return subtract(late, self.elsewhere)[0]


def doing(host: HostCauses, left: Intervals, rows: Index, first: int, crew: Sequence[int]) -> list[Pieces]:
    """Return this time by what the host was doing: this thread first, then the others of its crew, then Python."""
    parts: list[Pieces] = []
    others = [other for other in crew if other != first]
    for group in ([first], others):
        for cause in HostCauses.ORDER:
            left, rows, found = split(left, rows, cause, merged([host.spans(member, cause) for member in group]))
            parts += found
    left, rows, found = split(left, rows, "autograd_host", host.between_nodes(crew))
    parts += found
    rest = "python" if host.operators_recorded else "unknown"
    return [*parts, Pieces(left.start, left.end, np.full(len(left), CODE[rest], np.int8), rows)]


def split(left: Intervals, rows: Index, cause: str, what: Intervals) -> tuple[Intervals, Index, list[Pieces]]:
    """Split off what of `left` lies in `what`; return what is still left, its gaps, and the pieces of this cause."""
    if not len(what) or not len(left):
        return left, rows, []
    found, of_left, _ = intersect(left, what)
    if not len(found):
        return left, rows, []
    rest, of_rest = subtract(left, what)
    return (
        rest,
        rows[of_rest],
        [Pieces(found.start, found.end, np.full(len(found), CODE[cause], np.int8), rows[of_left])],
    )


def merged(sets: list[Intervals]) -> Intervals:
    """Return the union of several sets."""
    sets = [one for one in sets if len(one)]
    if len(sets) < 2:
        return sets[0] if sets else NOTHING
    return union(np.concatenate([s.start for s in sets]), np.concatenate([s.end for s in sets]))
