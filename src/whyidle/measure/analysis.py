"""What every question asks of one trace: its timeline, its devices' idle time, and shares of the window."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from whyidle.measure.attribution import Attribution
from whyidle.measure.host import HostCauses
from whyidle.measure.rows import Index, Mask, distinct, largest
from whyidle.measure.timeline import Timeline, innermost
from whyidle.model.evidence import Ints, Kind, Trace
from whyidle.model.finding import LOW, Location
from whyidle.model.intervals import Intervals, clip, containing, overlap, subtract, union

PLACES = 3  # locations that a measurement carries
# Of the operations, and of the device time, of the busiest device. Judgement: a context made by mistake leaves a few
# copies and fills, a device that takes part in every step has far more.
STRAY = 0.01


class Analysis:
    """One trace with its devices' attribution. Several devices: shares are weighted by the length of their windows."""

    def __init__(self, trace: Trace) -> None:
        self.t = Timeline(trace)
        self.host = HostCauses(self.t)
        every = [Attribution(self.host, device) for device in self.t.device_ids]
        self.devices, self.strays = apart(every)
        for device in self.devices:
            device.siblings = [other for other in self.devices if other is not device]

    # windows and shares

    @cached_property
    def device_window(self) -> int:
        """Return the windows of all devices together, ns; never zero."""
        return max(sum(a.high - a.low for a in self.devices), 1)

    def share(self, time: float) -> float:
        """Return device time in ns as a share of the window."""
        return time / self.device_window

    def host_share(self, index: Index) -> float:
        """Return the time that these host slices cover as a share of the window."""
        low, high = self.t.whole_window
        return clip(self.t.spans(index), low, high).total / max(high - low, 1)

    def device_time(self, index: Index) -> dict[int, Intervals]:
        """Return when these device slices ran inside the window, by device."""
        d = self.t.device
        whole = len(self.devices) == 1 and not self.strays
        return {
            a.device: clip(union(d.start[mine], d.end[mine]), a.low, a.high)
            for a in self.devices
            for mine in [index if whole else index[d.device[index] == a.device]]
        }

    def device_share(self, index: Index) -> float:
        """Return the time that these device slices ran as a share of the window."""
        return self.share(sum(spans.total for spans in self.device_time(index).values()))

    def exposed_share(self, index: Index) -> float:
        """Return the part of that time beside which no other kernel ran, as a share of the window."""
        if not len(index):
            return 0.0
        d = self.t.device
        others = np.ones(len(d), np.bool_)
        others[index] = False
        beside = self.device_time(np.flatnonzero(others & (d.kind == Kind.KERNEL)))
        alone = (subtract(spans, beside[device])[0].total for device, spans in self.device_time(index).items())
        return self.share(sum(alone))

    def idle(self, cause: str) -> Iterator[tuple[Attribution, Intervals]]:
        """Yield for each device the idle time of this cause."""
        for a in self.devices:
            yield a, a.pieces.of(cause)

    def idle_share(self, cause: str) -> float:
        return self.share(sum(a.totals[cause] for a in self.devices))

    def idle_inside(self, cause: str, host_slices: Index) -> float:
        """Return the idle time of this cause that falls inside these host slices, as a share of the window."""
        spans = self.t.spans(host_slices)
        return self.share(sum(int(overlap(idle.start, idle.end, spans).sum()) for _, idle in self.idle(cause)))

    # steps

    @cached_property
    def steps(self) -> int:
        return len(self.t.steps)

    def per_step(self, times: Ints) -> float:
        """Return how many of these times fall into the steps, per step; there have to be steps."""
        return float(np.count_nonzero(self.in_steps(times))) / self.steps

    def in_steps(self, times: Ints) -> Mask:
        """Return for each time whether it falls into the steps; all do where there are none."""
        if not self.steps:
            return np.ones(len(times), np.bool_)
        low, high = self.t.steps.span
        inside: Mask = (times >= low) & (times < high)
        return inside

    # places

    def places(self, cause: str, host_slices: Index | None = None) -> tuple[Location, ...]:
        """Return where the most idle time of a cause is: inside which host slices, else as bare stretches of time.

        A cause that is too small to be told has no places: looking for them costs more than measuring it.
        """
        if self.idle_share(cause) < LOW:
            return ()
        found: list[tuple[int, Location]] = []
        for a, idle in self.idle(cause):
            if host_slices is not None and len(host_slices):
                h = self.t.host
                time = overlap(h.start[host_slices], h.end[host_slices], idle)
                for row in largest(time, PLACES):
                    if time[row] > 0:
                        i = int(host_slices[row])
                        where = self.t.location(int(h.start[i]), int(h.end[i]), self.t.host_name(i), a.device)
                        found.append((int(time[row]), where))
            else:
                length = idle.lengths
                for row in largest(length, PLACES):
                    start, end = int(idle.start[row]), int(idle.end[row])
                    found.append((int(length[row]), self.t.location(start, end, self.doing(start, end), a.device)))
        found.sort(key=lambda item: -item[0])
        return tuple(where for _, where in found[:PLACES])

    def doing(self, start: int, end: int) -> str | None:
        """Return the name of what the busiest launching thread was inside of in the middle of this time."""
        for thread in self.t.launched_threads:
            middle = np.array([(start + end) // 2])
            around = innermost(middle, self.named[int(thread)], self.t.host.start, self.t.host.end)[0]
            if around >= 0:
                return self.t.host_name(int(around))
        return None

    @cached_property
    def named(self) -> dict[int, Index]:
        """Return for each launching thread the slices that tell a person where they are in their program."""
        h = self.t.host
        return {
            int(thread): np.flatnonzero((h.kind <= Kind.PYTHON) & (h.thread == thread))
            for thread in self.t.launched_threads
        }

    def device_places(self, index: Index) -> tuple[Location, ...]:
        """Return the longest of these device slices."""
        d = self.t.device
        rows = index[largest(d.end[index] - d.start[index], PLACES)]
        return tuple(
            self.t.location(int(d.start[i]), int(d.end[i]), self.t.trace.strings[d.name[i]], int(d.device[i]))
            for i in rows
        )

    def host_places(self, index: Index) -> tuple[Location, ...]:
        """Return the longest of these host slices."""
        h = self.t.host
        rows = index[largest(h.end[index] - h.start[index], PLACES)]
        return tuple(self.t.location(int(h.start[i]), int(h.end[i]), self.t.host_name(i)) for i in rows)

    # which operator launched what

    def launching_op(self, launched: Index) -> Index:
        """Return for each of these device slices the innermost operator that launched it."""
        h, calls = self.t.host, self.t.launch[launched]
        return self.t.enclosing(h.start[calls], h.thread[calls], self.t.of_kind(Kind.OP))

    def launched_inside(self, host_slices: Index) -> Index:
        """Return the device slices that were launched inside these host slices, on the same thread."""
        t, h = self.t, self.t.host
        known = np.flatnonzero(t.launch >= 0)
        if not len(host_slices) or not len(known):
            return np.empty(0, np.intp)
        calls = t.launch[known]
        inside = np.zeros(len(known), np.bool_)
        for thread in distinct(h.thread[host_slices]):
            mine = np.flatnonzero(h.thread[calls] == thread)
            spans = t.spans(host_slices[h.thread[host_slices] == thread])
            inside[mine] = containing(h.start[calls[mine]], spans) >= 0
        return known[inside]


def apart(devices: list[Attribution]) -> tuple[list[Attribution], list[Attribution]]:
    """Return the devices that work, and those with next to nothing to do.

    A process often leaves a copy or two on GPU 0 that works on another (a context made by mistake). That GPU is
    another process's: to count it as idle would halve the utilization of this one.
    """
    most = max((len(a.ops) for a in devices), default=0)
    longest = max((a.busy.total for a in devices), default=0)
    strays = [a for a in devices if len(a.ops) < STRAY * most and a.busy.total < STRAY * longest]
    return [a for a in devices if a not in strays], strays
