"""What a step is, in a log: the time from one mark to the next, and which of these steps are ours to judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log.nesting import (
    END_OF_DATA,
    PROFILE_START,
    PROFILE_STOP,
    SKIPPED,
    STEP_MARK,
    Rows,
)
from whyidle.model.evidence import Ints, Record, StepLog
from whyidle.model.intervals import EMPTY, NOTHING, Intervals, overlap, union

ENOUGH: Final = 10  # steps that have to be left for what slows a job down a little to be cut out as well
FEWEST: Final = 3  # marks; the first ends the time that is not watched, so that is two steps
THROUGHOUT: Final = 0.5  # of the run: ranges that mark less of it are no steps
MOST_OPTIMIZERS: Final = 1024  # that are looked at, the most frequent first
APART: Final = 0.1  # of their time: optimizers that overlap less take turns, as in the folds of a cross-validation


@dataclass(frozen=True, slots=True, eq=False)
class Period:
    """Steps of a process. The first begins where the first mark ends: what comes before it is the start of the job."""

    start: Ints  # ns
    end: Ints  # ns
    kept: NDArray[np.bool_]  # False: our own doing, or records are missing
    source: str  # what the marks are
    skipped: int = 0  # steps that ended without an update, since gradients overflowed (AMP)

    @property
    def times(self) -> Ints:
        """Return how long the steps that are judged take, ns."""
        return (self.end - self.start)[self.kept]

    @property
    def window(self) -> Intervals:
        """Return the watched time."""
        return union(self.start[self.kept], self.end[self.kept])


def period(log: StepLog, rows: Rows, beside: Intervals = NOTHING) -> Period | None:
    """Return the steps by the first of these that there are enough of.

    Ranges that mark steps; an optimizer; backward passes; batches; forward passes.

    Args:
        log: the process.
        rows: what its training thread did.
        beside: when we held up other ranks, for which this one waited.
    """
    for source, marks, skipped in _candidates(rows):
        if len(marks) >= FEWEST:
            start, end = marks[:-1], marks[1:]
            return Period(start, end, _kept(start, end, log, beside), source, skipped)
    return None


def step_ends(rows: Rows) -> Ints:
    """Return when steps ended, the first too, by what `period` knows them by; nothing where there are too few."""
    return next((marks for _, marks, _ in _candidates(rows) if len(marks) >= FEWEST), EMPTY)


def _kept(start: Ints, end: Ints, log: StepLog, beside: Intervals) -> NDArray[np.bool_]:
    """Say which steps are the job's own. Of a short job it is less strict, as nothing would be left."""
    own = overlap(start, end, _cut([*held_up(log), *_missing(log)])) == 0
    alone = own & (overlap(start, end, beside) == 0)
    quiet = alone & (overlap(start, end, _cut(list(_exported(log)))) == 0)
    enough = next((kept for kept in (quiet, alone, own) if np.count_nonzero(kept) >= ENOUGH), own)
    return enough if enough.any() else np.ones(len(start), np.bool_)


def _candidates(rows: Rows) -> Iterator[tuple[str, Ints, int]]:
    """Yield what could mark the ends of steps: what it is, when, and how many steps updated nothing."""
    marked = rows.of(Record.RANGE) & (rows.flags == STEP_MARK) & ~rows.within_range(STEP_MARK)
    if _throughout(rows, marked):
        yield "ranges", np.sort(rows.end[marked]), 0
    optimizers = rows.of(Record.STEP) & ~rows.within(Record.BACKWARD, Record.STEP)
    anchors = np.sort(rows.end[optimizers & np.isin(rows.value, _anchors(rows, optimizers))])
    skips = _skips(rows, anchors)
    yield "Optimizer.step", np.sort(np.concatenate((anchors, skips))), len(skips)
    passes = rows.of(Record.BACKWARD) & ~rows.within(Record.BACKWARD, Record.STEP)
    yield "backward", np.sort(rows.end[passes]), 0
    batches = rows.of(Record.BATCH) & ~rows.within(Record.BATCH) & (rows.flags & END_OF_DATA == 0)
    yield "DataLoader", np.sort(rows.end[batches]), 0
    yield "forward", np.sort(rows.end[rows.of(Record.FORWARD) & ~rows.within(Record.FORWARD)]), 0


def _throughout(rows: Rows, marked: NDArray[np.bool_]) -> bool:
    """Say whether ranges mark the whole run, not just the few steps that a profiler of the user records."""
    trains = rows.of(Record.STEP, Record.BACKWARD, Record.FORWARD, Record.BATCH)
    if not marked.any() or not trains.any():
        return bool(marked.any())
    whole = int(rows.end[trains].max() - rows.start[trains].min())
    return int(rows.end[marked].max() - rows.start[marked].min()) >= THROUGHOUT * whole


def _anchors(rows: Rows, optimizers: NDArray[np.bool_]) -> list[int]:
    """Return the optimizers whose steps end a step: the most frequent, and those that take turns with it.

    Of a GAN's two it is the one that steps more often; of two that step together the first.
    """
    if not optimizers.any():
        return []
    values, which, count = np.unique(rows.value[optimizers], return_inverse=True, return_counts=True)
    low, high = np.full(len(values), np.iinfo(np.int64).max), np.zeros(len(values), np.int64)
    np.minimum.at(low, which, rows.start[optimizers])
    np.maximum.at(high, which, rows.end[optimizers])
    anchors: list[int] = []
    for one in np.argsort(-count, kind="stable")[:MOST_OPTIMIZERS].tolist():
        shared = np.maximum(np.minimum(high[one], high[anchors]) - np.maximum(low[one], low[anchors]), 0).sum()
        if shared <= APART * (high[one] - low[one]):
            anchors.append(one)
    return [int(values[one]) for one in anchors]


def _skips(rows: Rows, anchors: Ints) -> Ints:
    """Return when a step ended that a gradient scaler skipped: no optimizer stepped since the scaler's last update."""
    scales = rows.of(Record.SCALE)
    ends = np.sort(rows.end[scales])
    if not len(ends):
        return EMPTY
    order = np.argsort(rows.end[scales])
    skipped = (rows.flags[scales][order] & SKIPPED) != 0
    before = np.searchsorted(anchors, ends)
    stepped = np.diff(np.concatenate(([0], before))) > 0
    return np.asarray(ends[skipped & ~stepped])


def held_up(log: StepLog) -> list[tuple[int, int]]:
    """Return when we slowed a process down: our profiler, our look for synchronisations."""
    return [*_profiled(log), *_watched(log)]


def _exported(log: StepLog) -> Iterator[tuple[int, int]]:
    """Yield when our trace was written: another thread of the process takes a CPU for that."""
    stops = np.flatnonzero((log.kind == Record.PROFILE) & (log.flags & PROFILE_STOP != 0))
    if len(stops) and log.export_ns:
        end = int(log.start[stops[-1]] + log.duration[stops[-1]])
        yield end, end + log.export_ns


def _cut(parts: list[tuple[int, int]]) -> Intervals:
    if not parts:
        return NOTHING
    start, end = np.array(parts, np.int64).T
    return union(start, np.maximum(end, start + 1))


def _profiled(log: StepLog) -> Iterator[tuple[int, int]]:
    """Yield from the start of our profiler to its stop, both included; to the end of the log if it never stopped."""
    profile = np.flatnonzero(log.kind == Record.PROFILE)
    began: int | None = None
    for index in profile.tolist():
        start, end = int(log.start[index]), int(log.start[index] + log.duration[index])
        if log.flags[index] & PROFILE_START and began is None:  # it may be started twice: to warm up, and to record
            began = start
        if log.flags[index] & PROFILE_STOP and began is not None:
            yield began, end
            began = None
        elif not log.flags[index] & PROFILE_START:
            yield start, end
    if began is not None:
        yield began, int((log.start + log.duration).max())


def _watched(log: StepLog) -> Iterator[tuple[int, int]]:
    for index in np.flatnonzero(log.kind == Record.WATCH).tolist():
        yield int(log.start[index]), int(log.start[index] + log.duration[index])


def _missing(log: StepLog) -> Iterator[tuple[int, int]]:
    """Yield the time from the last record before a hole to the first after it."""
    order = np.argsort(log.sequence, kind="stable")
    sequence = log.sequence[order]
    for hole in np.flatnonzero(np.diff(sequence) > 1).tolist():
        first, second = order[hole], order[hole + 1]
        ends = sorted((int(log.start[first] + log.duration[first]), int(log.start[second] + log.duration[second])))
        yield ends[0], ends[1]
