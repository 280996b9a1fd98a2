"""Sets of time as sorted, disjoint, half-open intervals [start, end) of int64 nanoseconds.

All of attribution is this algebra: idle is a complement, a cause an intersection, what is left a difference.
Every function is one pass of numpy over sorted arrays; tests/laws holds their laws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Ints

EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """A set of time. `start` and `end` have the same length, are sorted, and no two intervals overlap."""

    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def lengths(self) -> Ints:
        return self.end - self.start

    @property
    def total(self) -> int:
        """Return the length of the whole set, ns."""
        return int(self.lengths.sum())


NOTHING = Intervals(EMPTY, EMPTY)


def union(start: Ints, end: Ints) -> Intervals:
    """Merge any intervals, sorted by start or not; empty and negative ones count for nothing."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return NOTHING
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    last = np.append(first[1:] - 1, len(start) - 1)
    return Intervals(start[first], reach[last])


def clip(a: Intervals, low: int, high: int) -> Intervals:
    """Return the part of `a` inside [low, high)."""
    start, end = np.maximum(a.start, low), np.minimum(a.end, high)
    keep = end > start
    return Intervals(start[keep], end[keep])


def complement(a: Intervals, low: int, high: int) -> Intervals:
    """Return the part of [low, high) that `a` leaves free."""
    inside = clip(a, low, high)
    start = np.concatenate(([low], inside.end))
    end = np.concatenate((inside.start, [high]))
    keep = end > start
    return Intervals(start[keep], end[keep])


def intersect(a: Intervals, b: Intervals) -> tuple[Intervals, NDArray[np.intp], NDArray[np.intp]]:
    """Return the common part, and for each of its pieces the index of the interval in `a` and in `b`."""
    low = np.searchsorted(b.end, a.start, "right")
    count = np.maximum(np.searchsorted(b.start, a.end, "left") - low, 0)
    of_a = np.repeat(np.arange(len(a)), count)
    of_b = np.arange(len(of_a)) - np.repeat(np.cumsum(count) - count, count) + low[of_a]
    pieces = Intervals(np.maximum(a.start[of_a], b.start[of_b]), np.minimum(a.end[of_a], b.end[of_b]))
    return pieces, of_a, of_b


def subtract(a: Intervals, b: Intervals) -> tuple[Intervals, NDArray[np.intp]]:
    """Return what of `a` is outside `b`, and for each piece the index of its interval in `a`."""
    if not len(a) or not len(b):
        return a, np.arange(len(a))
    free = complement(b, min(int(a.start[0]), int(b.start[0])), max(int(a.end[-1]), int(b.end[-1])))
    pieces, of_a, _ = intersect(a, free)
    return pieces, of_a


def overlap(start: Ints, end: Ints, b: Intervals) -> Ints:
    """Return for each interval [start, end), in any order, how much of it lies in `b`, ns."""
    if not len(b):
        return np.zeros(len(start), np.int64)
    return np.asarray(covered_before(end, b) - covered_before(start, b))


def covered_before(times: Ints, b: Intervals) -> Ints:
    """Return for each time how much of `b` lies before it, ns."""
    before = np.concatenate(([0], np.cumsum(b.lengths)))
    index = np.searchsorted(b.start, times, "right")
    covered = before[index]
    inside = index > 0
    covered[inside] -= np.maximum(b.end[index[inside] - 1] - times[inside], 0)
    return covered


def containing(times: Ints, b: Intervals) -> NDArray[np.intp]:
    """Return for each time the index of the interval of `b` that holds it, -1 for none."""
    index = np.searchsorted(b.start, times, "right") - 1
    if not len(b):
        return index
    outside = (index < 0) | (b.end[np.maximum(index, 0)] <= times)
    index[outside] = -1
    return index
