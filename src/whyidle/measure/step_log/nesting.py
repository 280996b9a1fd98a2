"""What the training thread did when: its records as a stack, so that no time is counted twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Ints, Record, StepLog
from whyidle.model.intervals import EMPTY

# Records of what the thread was doing; the others are notes about it.
WORK: Final = (
    Record.BATCH,
    Record.STEP,
    Record.FORWARD,
    Record.BACKWARD,
    Record.SAVE,
    Record.ITERATE,
    Record.SCALE,
    Record.COLLECT,
    Record.RANGE,
    Record.ENVIRONMENT,
)
# By which records the training thread is known: that with most of the first kind that there is.
THREAD_BY: Final = (Record.STEP, Record.BACKWARD, Record.FORWARD, Record.BATCH, Record.RANGE)

# Flags of records, docs/run-directory.md.
END_OF_DATA, HAS_WORKERS = 1, 2
COMPUTED, FULL = 2, 62  # of a batch: from this bit on 1 + the part of its time in which the thread computed, in 62nds
TRAINING = 1 | 2  # a forward pass: in training mode, gradients are on
SKIPPED = 1
IN_BACKGROUND = 1  # a save
PROFILE_START, PROFILE_STOP = 1, 2
EVALUATION, CHECKPOINT, LOGGING, DATA, STEP_MARK = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records of one thread, in order of start, of equal ones the longest first, and how they lie in each other."""

    kind: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    sequence: Ints
    start: Ints  # ns
    end: Ints  # ns
    value: Ints
    inside: Ints  # a bit for each kind that one of those around it has
    marked: Ints  # the same for the flags of ranges around it
    # Pieces of time in which one record, the latest to begin, is under way; the rest is in none.
    piece_start: Ints
    piece_end: Ints
    piece_of: Ints  # index of that record, -1 none

    def __len__(self) -> int:
        return len(self.start)

    def of(self, *kinds: Record) -> NDArray[np.bool_]:
        """Say which records are of one of these kinds."""
        return np.isin(self.kind, kinds)

    def within(self, *kinds: Record) -> NDArray[np.bool_]:
        """Say which records lie in one of these kinds."""
        bits = sum(1 << kind for kind in kinds)
        return np.asarray(self.inside & bits != 0)

    def within_range(self, *flags: int) -> NDArray[np.bool_]:
        """Say which records lie in a range with one of these flags."""
        bits = sum(1 << flag for flag in flags)
        return np.asarray(self.marked & bits != 0)

    @property
    def waiting(self) -> NDArray[np.float64]:
        """Return the part of each record's time in which its thread waited: less than 1 where a batch was received.

        A batch that is ready has to be unpacked; that is work of the thread, which no worker would take from it.
        """
        told = np.where(self.of(Record.BATCH), self.flags >> COMPUTED, 0)
        return np.where(told > 0, 1 - np.minimum((told - 1) / FULL, 1.0), 1.0)

    @property
    def loader(self) -> Ints:
        """Return the loader of each BATCH and ITERATE."""
        return np.asarray((self.value.view(np.uint64) >> np.uint64(56)).astype(np.int64))


def training_thread(log: StepLog) -> int | None:
    """Return the thread on which a process trains; None if it did nothing of that kind."""
    for kind in THREAD_BY:
        threads = log.thread[log.kind == kind]
        if len(threads):
            return int(np.bincount(threads).argmax())
    return None


def rows_of(log: StepLog, thread: int) -> Rows:
    """Return the records of a thread."""
    index = np.flatnonzero(np.isin(log.kind, WORK) & (log.thread == thread))
    end = log.start[index] + log.duration[index]
    index = index[np.lexsort((-end, log.start[index]))]
    start, kind, flags = log.start[index], log.kind[index], log.flags[index]
    end = start + log.duration[index]
    inside, marked, pieces = _stack(start.tolist(), end.tolist(), kind.tolist(), flags.tolist())
    return Rows(
        kind, flags, log.sequence[index], start, end, log.value[index],
        np.array(inside, np.int64), np.array(marked, np.int64), *pieces,
    )  # fmt: skip


def _stack(
    start: list[int], end: list[int], kind: list[int], flags: list[int]
) -> tuple[list[int], list[int], tuple[Ints, Ints, Ints]]:
    """Go through records in order of start: what lies around each, and whose time is whose.

    The latest to begin has the time, until it ends; that also holds for records that overlap without being nested,
    which clocks and damage can make.
    """
    inside, marked = [0] * len(start), [0] * len(start)
    starts: list[int] = []
    ends: list[int] = []
    owners: list[int] = []
    stack: list[int] = []
    now = start[0] if start else 0

    def until(time: int, owner: int) -> int:
        if time <= now:
            return now
        starts.append(now)
        ends.append(time)
        owners.append(owner)
        return time

    for index, begins in enumerate(start):
        while stack and end[stack[-1]] <= begins:
            top = stack.pop()
            now = until(end[top], top)
        now = until(begins, stack[-1] if stack else -1)
        if stack:
            around = stack[-1]
            inside[index] = inside[around] | 1 << kind[around]
            marked[index] = marked[around] | (1 << flags[around] if kind[around] == Record.RANGE else 0)
        stack.append(index)
    while stack:
        top = stack.pop()
        now = until(end[top], top)
    if not owners:
        return inside, marked, (EMPTY, EMPTY, EMPTY)
    return inside, marked, (np.array(starts, np.int64), np.array(ends, np.int64), np.array(owners, np.int64))
