"""The loss of each step of a training, as `whyidle run --losses` recorded it, else as a trainer printed it.

Kept apart: a loss that is no number (a row with NaN or infinity) and one that nobody measured (no row). Of several
backward passes in a step the loss is their mean; of several ranks the mean of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log.nesting import END_OF_DATA, rows_of, training_thread
from whyidle.measure.step_log.period import step_ends
from whyidle.model.evidence import Curve, Floats64, Ints, Record, Run, Series, StepLog
from whyidle.model.record import SCALED

RECORDED: Final = "recorded losses"
SAMPLES_AT: Final = 32  # bit of a BATCH's value from which on it holds samples
MOST_SAMPLES: Final = 0xFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Losses by the number of their step. Columns have the same length; steps grow."""

    step: Ints
    loss: Floats64  # NaN and infinity: it was no finite number
    grad_norm: Floats64  # NaN: not known
    source: str  # RECORDED, or the kind of the log
    samples_per_step: float | None = None  # mean; None not known

    def __len__(self) -> int:
        return len(self.step)

    @property
    def not_finite(self) -> int:
        """Return how many steps had a loss that was no finite number."""
        return int(np.count_nonzero(~np.isfinite(self.loss)))

    def of(self, rows: NDArray[np.intp]) -> Losses:
        """Return some of the steps."""
        return Losses(self.step[rows], self.loss[rows], self.grad_norm[rows], self.source, self.samples_per_step)


def losses(run: Run) -> Losses | None:
    """Return the losses of a run; None where it has none. What was recorded counts before what was printed."""
    recorded = [found for log in run.logs if (found := _of_log(log)) is not None]
    if recorded:
        return _mean(recorded)
    printed = [found for curve in run.curves if (found := _of_curve(curve)) is not None]
    return max(printed, key=len, default=None)


def _of_log(log: StepLog) -> Losses | None:
    """Return the losses that a process recorded, as far as no record is missing: then steps cannot be counted."""
    thread = training_thread(log)
    if thread is None:
        return None
    whole = log.sequence < _first_missing(log)
    at = np.flatnonzero((log.kind == Record.LOSS) & whole & ~np.isin(log.thread, _other_trainings(log, thread)))
    if not len(at):
        return None
    ends = step_ends(rows_of(log, thread))
    at = at[np.argsort(log.start[at], kind="stable")]
    step = np.searchsorted(ends, log.start[at])
    at, step = at[step < len(ends)], step[step < len(ends)]
    if not len(at):
        return None
    value = log.value[at].view(np.float64)
    unknown = np.bincount(step, (log.flags[at] & SCALED) != 0, len(ends)) > 0
    passes = np.bincount(step, minlength=len(ends))
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.bincount(step, value, len(ends)) / np.maximum(passes, 1)
    kept = np.flatnonzero((passes > 0) & ~unknown)
    nothing = np.full(len(kept), np.nan)
    return Losses(kept + 1, mean[kept], nothing, RECORDED, _samples(log, len(ends))) if len(kept) else None


def _other_trainings(log: StepLog, thread: int) -> Ints:
    """Return the threads that train something else meanwhile."""
    threads = np.unique(log.thread[log.kind == Record.STEP])
    return np.asarray(threads[threads != thread], np.int64)


def _first_missing(log: StepLog) -> int:
    """Return the sequence of the first record that is lost; larger than all where none is."""
    sequence = np.sort(log.sequence)
    gaps = np.flatnonzero(np.diff(sequence) > 1)
    return int(sequence[gaps[0]]) + 1 if len(gaps) else np.iinfo(np.int64).max


def _samples(log: StepLog, steps: int) -> float | None:
    """Return how many samples a step takes; None where batches do not tell it."""
    batches = (log.kind == Record.BATCH) & (log.flags & END_OF_DATA == 0)
    samples = (log.value[batches] >> SAMPLES_AT) & MOST_SAMPLES
    return float(samples.sum()) / steps if steps and len(samples) and samples.all() else None


def _mean(ranks: Sequence[Losses]) -> Losses:
    """Return the mean of what ranks lost in the steps that all of them have."""
    if len(ranks) == 1:
        return ranks[0]
    common = ranks[0].step
    for one in ranks[1:]:
        common = np.intersect1d(common, one.step, assume_unique=True)
    rows = [one.loss[np.searchsorted(one.step, common)] for one in ranks]
    told = [one.samples_per_step for one in ranks]
    samples = sum(one for one in told if one is not None) if None not in told else None
    return Losses(common, np.mean(rows, axis=0), np.full(len(common), np.nan), RECORDED, samples)


def _of_curve(curve: Curve) -> Losses | None:
    """Return the losses that a trainer printed; where it does not number its steps, by their order."""
    told = {one.name: one for one in curve.series}
    if "loss" not in told:
        return None
    loss = told["loss"]
    wrong = beside(told.get("loss_not_finite"), loss) > 0
    step = beside(told["step"], loss) if "step" in told else np.arange(1.0, len(loss.time) + 1)
    known = np.flatnonzero((wrong | ~np.isnan(loss.value)) & ~np.isnan(step))
    if not len(known):
        return None
    number = unrolled(step[known])
    order = np.argsort(number, kind="stable")
    last = order[np.append(np.diff(number[order]) > 0, True)]  # of what ranks say of the same step
    rows = known[last]
    value = np.where(wrong, np.nan, loss.value)
    return Losses(number[last], value[rows], beside(told.get("grad_norm"), loss)[rows], curve.kind)


def beside(one: Series | None, loss: Series) -> Floats64:
    """Return the values that were printed together with losses; of steps without numbers, that of their line."""
    if one is None:
        return np.full(len(loss.time), np.nan)
    at = np.minimum(np.searchsorted(one.time, loss.time), len(one.time) - 1)
    return np.where(one.time[at] == loss.time, one.value[at], np.nan)


def unrolled(step: Floats64) -> Ints:
    """Return steps that go on where a trainer counts from the beginning in each epoch.

    Only where they fall far, and to about the first: lines of several processes are a little out of order, and a job
    that is resumed goes on from a checkpoint. Numbers with fractions (of an epoch) do not count steps: then it is their
    order.
    """
    if (step % 1 != 0).any():
        return np.arange(1, len(step) + 1)
    told = step.astype(np.int64)
    apart = np.diff(told)
    first = max(int(np.median(apart[apart > 0])) if (apart > 0).any() else 1, int(told[0]) if told[0] <= 1 else 0)
    whole = told.copy()
    for fall in np.flatnonzero((told[1:] < told[:-1] // 2) & (told[1:] <= first)).tolist():
        whole[fall + 1 :] += told[fall] + int(told[fall + 1] == 0)
    return whole
