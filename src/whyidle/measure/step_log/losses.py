"""What of the host's waits the GPU waited for, too: only that is lost. Without a GPU all of a wait is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log.nesting import CHECKPOINT, DATA, END_OF_DATA, HAS_WORKERS, Rows
from whyidle.measure.step_log.period import Period
from whyidle.measure.step_log.phases import EVALUATION, evaluating
from whyidle.model.evidence import Ints, Record, StepLog
from whyidle.model.intervals import NOTHING, Intervals, overlap, subtract, union

COVERED: Final = 0.5  # of the host's wait: so much must have the GPU's own time for the rest to be taken as like it
FEW: Final = 0.5  # batches per step: with fewer, data comes from elsewhere
LONG: Final = 0.1  # of a step: a shorter pause between steps is bookkeeping of the loop
REGULAR: Final = 0.8  # of the steps have it
USUAL: Final = 5  # times the median pause: what is beyond is something else

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """How long each record of the training thread lasted in the watched time, and how long the GPU waited meanwhile."""

    host: Ints  # ns
    lost: NDArray[np.float64]  # ns; NaN where not measured


def waits(log: StepLog, rows: Rows, window: Intervals, on_gpu: bool) -> Waits:
    """Return the waits of all records, less garbage collections and work in them, which are in other phases."""
    collected = rows.of(Record.COLLECT)
    free, _ = subtract(window, union(rows.start[collected], rows.end[collected]))
    within = overlap(rows.start, rows.end, free)
    host = np.rint(within * rows.waiting).astype(np.int64)
    if not on_gpu:
        return Waits(host, host.astype(np.float64))
    device = device_time(log, rows.sequence)
    part = within / np.maximum(rows.end - rows.start, 1)
    return Waits(host, np.minimum(device * part, host))


def device_time(log: StepLog, sequence: Ints) -> NDArray[np.float64]:
    """Return for each record the time that its device took from its start to its end, ns; NaN where not recorded."""
    notes = log.kind == Record.GPU
    found = np.full(len(sequence), np.nan)
    if not notes.any() or not len(sequence):
        return found
    own = log.sequence[notes]
    behind = (own - log.value[notes]) & 0xFFFFFFFF  # records name others by 32 bits of their sequence
    order = np.argsort(sequence)
    place = np.minimum(np.searchsorted(sequence, own - behind, sorter=order), len(sequence) - 1)
    index = order[place]
    hit = sequence[index] == own - behind
    found[index[hit]] = log.duration[notes][hit]
    return found


def lost(some: Waits, which: Bools) -> NDArray[np.float64] | None:
    """Return what each of these waits cost, ns; None where too little is known.

    Where the GPU's time of most of the wait is known, the rest is taken as like it.
    """
    host, cost = some.host[which], some.lost[which].copy()
    unknown = np.isnan(cost)
    if not unknown.any():
        return cost
    known = int(host[~unknown].sum())
    if not host[unknown].sum():
        cost[unknown] = 0.0
    elif known < COVERED * host.sum() or not known:
        return None
    else:
        cost[unknown] = host[unknown] * (cost[~unknown].sum() / known)
    return cost


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Waits for batches of training: outermost ones, and the starts of their loaders."""

    index: NDArray[np.intp]  # of rows
    loader: Ints
    begins: Bools  # the first of an epoch
    ends: Bools  # no batch, but the end of the data
    starts: Bools  # no batch, but the start of an iteration
    workers: Bools  # of the loader


def batches(rows: Rows, evaluates: Bools) -> Batches:
    """Return the waits for batches for training, by loader and time."""
    waiting = rows.of(Record.BATCH, Record.ITERATE) & ~rows.within(Record.BATCH) & ~evaluates
    index = np.flatnonzero(waiting)
    index = index[np.argsort(rows.loader[index], kind="stable")]
    loader = rows.loader[index]
    starts = rows.kind[index] == Record.ITERATE
    ends = ~starts & (rows.flags[index] & END_OF_DATA != 0)
    renewed = np.concatenate(([True], starts[:-1] | ends[:-1] | (loader[1:] != loader[:-1]))) if len(index) else starts
    return Batches(
        index, loader, renewed & ~starts & ~ends, ends, starts, (rows.flags[index] & HAS_WORKERS) != 0
    )  # fmt: skip


def data_losses(some: Waits, found: Batches, total: int, step: float) -> Iterator[tuple[str, float]]:
    """Yield what waiting for loaders cost, as shares. The first batch of an epoch costs what it takes beyond others.

    Where the GPU's own time of a loader's start or end is not known, it costs what it takes beyond a step: so far ahead
    of its GPU a host may be.

    Args:
        some: all waits.
        found: those for batches.
        total: length of the watched time, ns.
        step: length of the median step, ns.
    """
    is_batch = np.zeros(len(some.host), np.bool_)
    is_batch[found.index[~(found.starts | found.ends)]] = True
    cost = lost(some, is_batch)
    if cost is None:
        return
    beyond = np.maximum(some.host - step, 0.0)
    each = np.where(np.isnan(some.lost), beyond, some.lost)
    each[is_batch] = cost
    each = each[found.index]
    seen = some.host[found.index] > 0
    first = np.where(found.starts | found.ends, each, 0.0)
    usual = ~(found.begins | found.starts | found.ends) & seen
    for loader in np.unique(found.loader[found.begins]).tolist():
        others = each[usual & (found.loader == loader)]
        begins = found.begins & (found.loader == loader)
        first[begins] = np.maximum(each[begins] - (np.median(others) if len(others) else 0.0), 0.0)
    rest = each - first
    yield "lost_data_zero_share", float(rest[~found.workers].sum()) / total
    yield "lost_data_workers_share", float(rest[found.workers].sum()) / total
    yield "lost_data_first_share", float(first.sum()) / total


def of_another_thread(log: StepLog, rows: Rows, steps: Period, phase: Ints, thread: int) -> tuple[float, float] | None:
    """Return the shares in which the job waits while another thread takes a batch from a loader: without, with workers.

    None where no other thread does, or none in most steps: then the training thread does not live on these batches.
    """
    its = (log.kind == Record.BATCH) & (log.thread != thread) & (log.flags & END_OF_DATA == 0)
    its &= (log.start >= steps.start[0]) & (log.start < steps.end[-1])
    pause = _pauses(rows, steps, phase)
    if pause is None or np.count_nonzero(its) < FEW * len(steps.end):
        return None
    workers = (log.flags & HAS_WORKERS) != 0
    end = log.start + log.duration
    parts = []
    for which in (its & ~workers, its & workers):
        beside = _pauses(rows, steps, phase, union(log.start[which], end[which]))
        parts.append(float((pause - (pause if beside is None else beside)).sum()) / steps.window.total)
    return parts[0], parts[1]


def data_ranges(rows: Rows, phase: Ints) -> Bools:
    """Say which records are outermost ranges that are named for loading, for training, and hold no batch."""
    own = rows.of(Record.RANGE) & (rows.flags == DATA) & ~rows.within_range(DATA) & (phase != EVALUATION)
    holds_batches = np.zeros(len(rows), np.bool_)
    inner = np.flatnonzero(rows.of(Record.BATCH) & rows.within_range(DATA))
    around = np.flatnonzero(own)
    if len(around) and len(inner):
        holder = np.searchsorted(rows.start[around], rows.start[inner], "right") - 1
        holds_batches[around[np.maximum(holder, 0)]] = True
    return np.asarray(own & ~holds_batches)


def other_data_loss(rows: Rows, steps: Period, some: Waits, found: Batches, phase: Ints) -> float | None:
    """Return the share in which the job waits for data that no DataLoader of PyTorch gives it; None where not known.

    That is the time of ranges named for loading; without these, where there are fewer batches than steps, the time
    from the end of a step to the next forward pass in which nothing is known to run, if it is long in most steps.
    Of pauses that are far longer than most the rest is something else. On a GPU the host may wait there for the GPU
    instead, and only what the GPU's own time tells counts.
    """
    total = steps.window.total
    own = data_ranges(rows, phase)
    if some.host[own].sum():
        cost = lost(some, own)
        return None if cost is None else float(cost.sum()) / total
    index = found.index[~found.starts & ~found.ends]
    ordinary = np.count_nonzero(overlap(rows.start[index], rows.start[index] + 1, steps.window))
    if ordinary >= FEW * np.count_nonzero(steps.kept):
        return 0.0
    if np.isnan(some.lost).any():
        return None
    pause = _pauses(rows, steps, phase)
    if pause is None:
        return None
    regular = pause > LONG * np.median(steps.times)
    if np.count_nonzero(regular) < REGULAR * len(pause):
        return 0.0
    return float(np.minimum(pause, USUAL * np.median(pause)).sum()) / total


def _pauses(rows: Rows, steps: Period, phase: Ints, without: Intervals = NOTHING) -> Ints | None:
    """Return for each step the time from its beginning to its first forward pass in which nothing is known to run."""
    forward = rows.of(Record.FORWARD) & (phase != EVALUATION)
    if not forward.any():
        return None
    starts = np.sort(rows.start[forward])
    place = np.searchsorted(starts, steps.start)
    reached = np.append(starts, np.iinfo(np.int64).max)[place]
    until = np.minimum(reached, steps.end)
    pauses = evaluating(rows, phase)  # with what lies between its records
    busy = union(
        np.concatenate((rows.start, pauses.start, without.start)), np.concatenate((rows.end, pauses.end, without.end))
    )
    pause = (until - steps.start) - overlap(steps.start, until, busy)
    return np.asarray(pause[steps.kept])


def save_loss(rows: Rows, some: Waits, total: int) -> float | None:
    """Return the share lost in writing checkpoints; None where not known."""
    around = rows.of(Record.RANGE) & (rows.flags == CHECKPOINT)
    saves = rows.of(Record.SAVE) & ~rows.within(Record.SAVE)
    known = ~np.isnan(some.lost)
    # A range around saves has no time of the GPU's own where only saves are timed.
    outermost = (around & known & ~rows.within_range(CHECKPOINT)) | (saves & ~(rows.within_range(CHECKPOINT)))
    if not (around & known).any():
        outermost = saves
    cost = lost(some, outermost)
    return None if cost is None else float(cost.sum()) / total


def evaluation_loss(
    rows: Rows, phase: Ints, some: Waits, shares: dict[str, float], window: Intervals, on_gpu: bool
) -> float | None:
    """Return the share lost in evaluations: waits for batches; without a GPU all but its forward passes, if seen."""
    evaluates = phase == EVALUATION
    forward = evaluates & rows.of(Record.FORWARD)
    if on_gpu or not forward.any():
        batch = rows.of(Record.BATCH) & ~rows.within(Record.BATCH) & (rows.flags & END_OF_DATA == 0)
        cost = lost(some, evaluates & batch)
        return None if cost is None else float(cost.sum()) / window.total
    computing = union(rows.start[forward], rows.end[forward])  # one may lie in another
    computed = overlap(computing.start, computing.end, window).sum()
    return max(shares.get("evaluation", 0.0) - float(computed) / window.total, 0.0)
