"""One trace, joined up: which call launched what, on which thread, inside what. Computed once, when first asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.durations import by_stream, corrupt, cut_back
from whyidle.measure.rows import Index, Mask, distinct
from whyidle.measure.steps import NO_STEPS, Steps, marks, profiler_steps
from whyidle.model.evidence import Codes, DeviceSlices, HostSlices, Ints, Kind, Trace
from whyidle.model.finding import Location
from whyidle.model.intervals import Intervals, union

T = TypeVar("T", np.int64, np.int32, np.intp)

# Above this many ids per slice a look-up table would cost more memory than a sort costs time.
DENSE_IDS = 8
# Up to this many times are looked up one by one; for more it pays to build the tree of slices.
FEW_TIMES = 16
# ns: what the fastest launches take (2-18 us, see `offset`), what rounding to whole microseconds may take off, and from
# where on it is no clock that is off (judgement).
FASTEST_LAUNCH = 5_000
CLOCK_ROUNDING = 1_000
FARTHEST_CLOCK = 1_000_000
FEW_WRONG = 2  # launches that may be joined to the wrong work before it is said that a clock is off (judgement)


class Timeline:
    """A trace with its joins. Index arrays point into `host` or `device`."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._matches: dict[re.Pattern[str] | Callable[[str], object], Mask] = {}
        self.host: HostSlices = trace.host_slices
        self.by_stream = by_stream(trace.device_slices)
        self.corrupt = corrupt(trace.device_slices, self.by_stream)
        self.device: DeviceSlices = cut_back(trace.device_slices, self.by_stream, self.corrupt)
        self.clock_offsets = {device: self.offset(device) for device in self.device_ids}
        shift = {device: offset for device, offset in self.clock_offsets.items() if 0 < offset <= FARTHEST_CLOCK}
        if shift:
            by = np.zeros(len(self.device), np.int64)
            for device, offset in shift.items():
                by[self.device.device == device] = offset
            self.device = replace(self.device, start=self.device.start + by, end=self.device.end + by)

    def offset(self, device: int) -> int:
        """Return by how much a device's times have to be shifted so that nothing starts before it is launched, ns.

        The fastest launches take 2-18 us in the recordings that we have. Where the fastest hundredth seem to take less
        than nothing, the clocks of host and device disagree by at least that, or launches were joined to the wrong
        work: clocks do not disagree by a millisecond.
        """
        launched = np.flatnonzero((self.launch >= 0) & (self.device.device == device))
        if not len(launched):
            return 0
        took = self.device.start[launched] - self.host.start[self.launch[launched]]
        place = min(max(len(took) // 100, FEW_WRONG), len(took) - 1)
        fastest = int(np.partition(took, place)[place])
        return FASTEST_LAUNCH - fastest if fastest < -CLOCK_ROUNDING else 0

    # names

    def strings_like(self, pattern: re.Pattern[str] | Callable[[str], object]) -> Mask:
        """Return for each distinct string whether it matches."""
        if pattern not in self._matches:
            test = pattern.search if isinstance(pattern, re.Pattern) else pattern
            strings = self.trace.strings
            self._matches[pattern] = np.fromiter((bool(test(text)) for text in strings), np.bool_, len(strings))
        return self._matches[pattern]

    def host_like(self, pattern: re.Pattern[str], *kinds: Kind) -> Index:
        """Return the host slices of these kinds (all, if none is named) whose name matches."""
        matches = self.strings_like(pattern)
        if not matches.any():
            return np.empty(0, np.intp)
        mask = matches[self.host.name]
        if kinds:
            mask &= np.isin(np.arange(len(Kind)), kinds)[self.host.kind]
        return np.flatnonzero(mask)

    def device_like(self, pattern: re.Pattern[str] | Callable[[str], object], kind: Kind = Kind.KERNEL) -> Index:
        """Return the device slices of this kind whose name matches."""
        rows = self.device_of_kind[kind]
        return rows[self.strings_like(pattern)[self.device.name[rows]]]

    @cached_property
    def device_of_kind(self) -> dict[Kind, Index]:
        """Return the device slices of each kind."""
        return {kind: np.flatnonzero(self.device.kind == kind) for kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)}

    @cached_property
    def between_devices(self) -> Index:
        """Return the operations that pass data from one device to another: peer copies and collectives."""
        copies = self.device_like(names.PEER_TO_PEER, Kind.MEMCPY)
        return np.sort(np.concatenate((copies, self.device_like(names.COLLECTIVE))))

    def of_kind(self, kind: Kind) -> Index:
        """Return the host slices of this kind."""
        return self.host_of_kind[kind]

    @cached_property
    def host_of_kind(self) -> dict[Kind, Index]:
        kinds = (Kind.OP, Kind.RANGE, Kind.PYTHON, Kind.RUNTIME, Kind.OVERHEAD)
        return {kind: np.flatnonzero(self.host.kind == kind) for kind in kinds}

    def host_name(self, index: int) -> str:
        return self.trace.strings[int(self.host.name[index])]

    # joins

    @cached_property
    def launch(self) -> Index:
        """Return for each device slice the RUNTIME slice that launched it, -1 where the recording has none."""
        calls = self.of_kind(Kind.RUNTIME)
        calls = calls[self.host.correlation[calls] >= 0]
        return join(self.host.correlation[calls], calls, self.device.correlation)

    @cached_property
    def launching(self) -> Index:
        """Return the RUNTIME slices that launched something that was recorded, each once."""
        return distinct(self.launch)

    @cached_property
    def launched_threads(self) -> Codes:
        """Return the threads that launch device work, the busiest first."""
        threads = self.host.thread[self.launching]
        if not len(threads):
            return np.empty(0, np.int32)
        count = np.bincount(threads)
        order = np.argsort(-count, kind="stable")
        return order[count[order] > 0].astype(np.int32)

    def enclosing(self, times: Ints, threads: Codes, candidates: Index) -> Index:
        """Return for each (time, thread) the innermost of `candidates` (host slices, in order) that covers it, -1 none.

        Candidates on one thread nest, as slices on a thread do.
        """
        found = np.full(len(times), -1, np.intp)
        for thread in distinct(threads):
            here = np.flatnonzero(threads == thread)
            own = candidates[self.host.thread[candidates] == thread]
            if len(own):
                found[here] = innermost(times[here], own, self.host.start, self.host.end)
        return found

    def spans(self, index: Index) -> Intervals:
        """Return the time that these host slices cover."""
        return union(self.host.start[index], self.host.end[index])

    # time base

    @cached_property
    def device_ids(self) -> list[int]:
        return [int(device) for device in np.unique(self.device.device)]

    @cached_property
    def profiler_steps(self) -> Steps | None:
        return profiler_steps(self)

    @cached_property
    def steps(self) -> Steps:
        return self.profiler_steps or next(marks(self), NO_STEPS)

    def window(self, device: int) -> tuple[int, int]:
        """Return [start, end) ns: all ProfilerSteps, else the first to the last operation of the device."""
        if self.profiler_steps is not None:
            return self.profiler_steps.span
        mine = self.device.device == device
        return int(self.device.start[mine].min()), int(self.device.end[mine].max())

    @cached_property
    def whole_window(self) -> tuple[int, int]:
        """Return the window that holds the windows of all devices."""
        windows = [self.window(device) for device in self.device_ids]
        return min(start for start, _ in windows), max(end for _, end in windows)

    def location(self, start: int, end: int, name: str | None = None, device: int | None = None) -> Location:
        """Return a place that a person finds in a trace viewer."""
        return Location(
            file=self.trace.path,
            rank=self.trace.rank,
            device=device,
            step=self.steps.number_at(start),
            start_s=(start - self.trace.origin) / 1e9,
            end_s=(end - self.trace.origin) / 1e9,
            name=name,
        )


def pick(column: NDArray[T], index: Index, missing: int | NDArray[T]) -> NDArray[T]:
    """Return `column[index]`, and `missing` where the index is -1."""
    if not len(column):
        return np.broadcast_to(np.asarray(missing, column.dtype), index.shape)
    return np.where(index >= 0, column[index], missing).astype(column.dtype, copy=False)


def join(keys: Ints, values: Index, wanted: Ints) -> Index:
    """Return for each wanted key its value, -1 where there is none or the key is negative."""
    found = np.full(len(wanted), -1, np.intp)
    if not len(keys):
        return found
    low, high = int(keys.min()), int(keys.max())
    inside = (wanted >= low) & (wanted <= high) & (wanted >= 0)
    if high - low < DENSE_IDS * (len(keys) + len(wanted)) + 1024:
        table = np.full(high - low + 1, -1, np.intp)
        table[keys - low] = values
        found[inside] = table[wanted[inside] - low]
        return found
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    hit = inside & (keys[order][place] == wanted)
    found[hit] = values[order][place[hit]]
    return found


def innermost(times: Ints, own: Index, start: Ints, end: Ints) -> Index:
    """Return for each time the innermost slice of one thread that covers it: the last started that has not ended."""
    starts, ends = start[own], end[own]
    if len(times) <= FEW_TIMES:
        return np.array([last_open(starts, ends, time, own) for time in times], np.intp)
    current = np.searchsorted(starts, times, "right") - 1
    parent = parents(starts, ends)
    open_ = np.flatnonzero(current >= 0)
    while len(open_):
        over = ends[current[open_]] <= times[open_]
        open_ = open_[over]
        current[open_] = parent[current[open_]]
        open_ = open_[current[open_] >= 0]
    return np.where(current >= 0, own[np.maximum(current, 0)], -1)


def last_open(starts: Ints, ends: Ints, time: int, own: Index) -> int:
    """Return the last started slice that has not ended at this time, -1 none."""
    open_ = np.flatnonzero(ends[: np.searchsorted(starts, time, "right")] > time)
    return int(own[open_[-1]]) if len(open_) else -1


def parents(start: Ints, end: Ints) -> Index:
    """Return for each slice of one thread, in order of start, the slice around it; -1 at the top.

    A level at a time: a slice's depth is the starts before it less the ends before it, and its parent
    the last slice one level up. Slices that cross instead of nesting get some earlier slice, never a later one.
    """
    parent = np.full(len(start), -1, np.intp)
    if not len(start):
        return parent
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, "right")
    above = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        if not len(here) or not len(above):
            break
        place = np.searchsorted(above, here) - 1
        parent[here[place >= 0]] = above[place[place >= 0]]
        above = here
    return parent
