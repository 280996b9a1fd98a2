"""Which batches and forward passes belong to an evaluation, and which to training: nobody marks them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log.nesting import END_OF_DATA, EVALUATION, TRAINING, Rows
from whyidle.measure.step_log.period import Period
from whyidle.model.evidence import Record

MOSTLY: Final = 0.8  # of a loader's batches: all of them are used for that

MOST_STEPS: Final = 0.5  # of the steps: what so many have is part of the step
MOSTLY_RUNS: Final = 0.5  # of a loader's batches
MOST_MODULES: Final = 256  # that are looked at, the most frequent first

Bools = NDArray[np.bool_]


def evaluation(rows: Rows, steps: Period) -> Bools:
    """Say which records belong to an evaluation; of ranges and saves only what lies in a range that is named for it.

    From one batch to the next is training where a backward pass or an optimizer's step is, or a forward pass in
    training mode with gradients; evaluation where other forward passes are. So a forward pass without gradients in a
    training step (a teacher, a generator) is part of that. A job that never trains does not evaluate.
    """
    named: Bools = rows.within_range(EVALUATION) | (rows.of(Record.RANGE) & (rows.flags == EVALUATION))
    if not rows.of(Record.BACKWARD, Record.STEP).any():
        return named
    forward = rows.of(Record.FORWARD)
    trains = rows.of(Record.BACKWARD, Record.STEP, Record.SCALE) | (forward & (rows.flags & TRAINING == TRAINING))
    other = forward & ~trains
    batch = rows.of(Record.BATCH) & ~rows.within(Record.BATCH)
    if not batch.any():
        return np.asarray(named | (other & _rare(rows, steps, other)))
    part = np.cumsum(batch)  # 0: before the first batch
    size = int(part[-1]) + 1
    has_training = np.bincount(part[trains], minlength=size) > 0
    acts = np.bincount(part[rows.of(Record.ENVIRONMENT)], minlength=size) > 0
    evaluates = (np.bincount(part[other], minlength=size) > 0) & ~has_training & ~acts
    loading = rows.of(Record.BATCH, Record.ITERATE)
    for loader in np.unique(rows.loader[np.flatnonzero(batch)[np.flatnonzero(evaluates[1:])]]).tolist():
        evaluates[part[batch & (rows.loader == loader)]] &= not _of_each_step(
            rows, steps, batch & evaluates[part], loader
        )
    found: Bools = named | (other & evaluates[part])
    for loader in np.unique(rows.loader[loading]).tolist():
        its = loading & (rows.loader == loader)
        found[its] |= _of_loader(rows, its, batch, has_training[part], evaluates[part])[its]
    return found


def _of_each_step(rows: Rows, steps: Period, its: Bools, loader: int) -> bool:
    """Say whether most steps take a batch of this loader, and few begin the loader anew.

    Then a teacher sees it before its student, from another loader, or the same: that is part of the step.
    """
    its = its & (rows.loader == loader)
    with_it = len(np.unique(np.searchsorted(steps.end, rows.start[its], "right")))
    again = np.count_nonzero(rows.of(Record.ITERATE) & (rows.loader == loader)) + np.count_nonzero(
        rows.of(Record.BATCH) & (rows.loader == loader) & (rows.flags & END_OF_DATA != 0)
    )
    return bool(with_it >= MOST_STEPS * len(steps.end) and again < MOST_STEPS * with_it)


def _in_a_row(rows: Rows, own: Bools, batch: Bools) -> bool:
    """Say whether most batches of a loader follow each other, and nothing known to be training lies between.

    So is an evaluation whose forward passes were not seen, as of `model.module` where `model` is what is watched.
    """
    order = np.flatnonzero(batch)
    followed = np.append(rows.loader[order[1:]] == rows.loader[order[:-1]], False)
    return bool(own.any()) and float(np.mean(followed[own[order]])) >= MOSTLY_RUNS


def _of_loader(rows: Rows, its: Bools, batch: Bools, trains: Bools, evaluates: Bools) -> Bools:
    """Say which batches of a loader are used for evaluation.

    The first batches may be fetched ahead of their use, and what follows the last is not its own: such batches go
    with the others of their loader.
    """
    own = its & batch & (rows.flags & END_OF_DATA == 0)
    trained, evaluated = np.count_nonzero(own & trains), np.count_nonzero(own & evaluates)
    mostly = evaluated > trained or (not trained and not evaluated and _in_a_row(rows, own, batch))
    if max(trained, evaluated) >= MOSTLY * (trained + evaluated):
        return np.full(len(its), mostly)
    decided = trains | evaluates
    found: Bools = np.where(own & decided, evaluates, mostly)
    # The end of the data goes with the batch before it, of a loader that is used for both in turns.
    index = np.flatnonzero(its & batch)
    before = np.maximum.accumulate(np.where(own[index], np.arange(len(index)), -1)) if len(index) else index
    ends = ~own[index] & (before >= 0)
    found[index[ends]] = found[index[before[ends]]]
    return found


def _rare(rows: Rows, steps: Period, other: Bools) -> Bools:
    """Without batches: forward passes of modules that most steps do without."""
    rare = np.zeros(len(rows), np.bool_)
    if rows.of(Record.ENVIRONMENT).any():  # acting in an environment is what such a job trains on
        return rare
    modules, count = np.unique(rows.value[other], return_counts=True)
    for module in modules[np.argsort(-count, kind="stable")][:MOST_MODULES].tolist():
        its = other & (rows.value == module)
        step = np.searchsorted(steps.end, rows.start[its], "right")
        per_step = np.bincount(step, minlength=len(steps.end) + 1)[: len(steps.end)]
        rare[its] = np.median(per_step) < 1
    return rare
