"""Which part of the watched time went into what: exclusive phases of the training thread that sum to all of it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log import nesting
from whyidle.measure.step_log.nesting import Rows
from whyidle.model.evidence import Ints, Record
from whyidle.model.finding import PHASES
from whyidle.model.intervals import Intervals, overlap, union

OTHER: Final = PHASES.index("other")
GC: Final = PHASES.index("gc")
DATA, PREPARE = PHASES.index("data"), PHASES.index("prepare")
FORWARD, SAVE, EVALUATION = PHASES.index("forward"), PHASES.index("save"), PHASES.index("evaluation")
NONE: Final = -1  # no phase of its own: what is around it decides

OF_KIND: Final = {
    Record.BATCH: DATA,
    Record.STEP: PHASES.index("optimizer"),
    Record.SCALE: PHASES.index("optimizer"),
    Record.FORWARD: FORWARD,
    Record.BACKWARD: PHASES.index("backward"),
    Record.SAVE: SAVE,
    Record.ITERATE: PHASES.index("start"),
    Record.COLLECT: GC,
    Record.ENVIRONMENT: PHASES.index("environment"),
    Record.RANGE: NONE,
}
OF_RANGE: Final = {nesting.EVALUATION: EVALUATION, nesting.CHECKPOINT: SAVE, nesting.DATA: DATA}


def phase_of(rows: Rows, evaluates: NDArray[np.bool_]) -> Ints:
    """Return the phase of each record's own time."""
    table = np.full(256, NONE, np.int64)
    for kind, own in OF_KIND.items():
        table[kind] = own
    phase: Ints = table[rows.kind]
    ranges = rows.of(Record.RANGE)
    for flag, named in OF_RANGE.items():
        phase[ranges & (rows.flags == flag)] = named
    # A forward pass inside the backward pass computes activations again.
    phase[rows.of(Record.FORWARD) & rows.within(Record.BACKWARD)] = OF_KIND[Record.BACKWARD]
    phase[evaluates & ~np.isin(phase, (GC, SAVE))] = EVALUATION
    # A range without a phase does not hide that of the range around it.
    plain = ranges & (phase == NONE)
    phase[plain & rows.within_range(nesting.CHECKPOINT)] = SAVE
    phase[plain & rows.within_range(nesting.DATA)] = DATA
    return phase


def phases(rows: Rows, phase: Ints, window: Intervals) -> dict[str, float]:
    """Return the share of each phase of the window; they sum to 1.

    Receiving a batch that is ready is preparation. Time in which nothing is recorded is preparation between a batch and
    a forward pass, evaluation from one of its records to whatever is next, else "other".
    """
    if not window.total:
        return {}
    of_piece = of_pieces(rows, phase)
    length = overlap(rows.piece_start, rows.piece_end, window)
    waits = np.where((rows.piece_of >= 0) & (of_piece == DATA), rows.waiting[rows.piece_of], 1.0)
    total = np.bincount(of_piece, weights=length * waits, minlength=len(PHASES))
    total[PREPARE] += (length * (1 - waits)).sum()
    total[OTHER] += window.total - length.sum()
    return {name: float(total[index]) / window.total for index, name in enumerate(PHASES)}


def of_pieces(rows: Rows, phase: Ints) -> Ints:
    """Return the phase of each piece of time."""
    return _filled(np.where(rows.piece_of >= 0, phase[rows.piece_of], NONE))


def evaluating(rows: Rows, phase: Ints) -> Intervals:
    """Return the time that evaluations take, with what lies between their records."""
    its = of_pieces(rows, phase) == EVALUATION
    return union(rows.piece_start[its], rows.piece_end[its])


def neighbours(of_piece: Ints) -> tuple[Ints, Ints]:
    """Return the phases of what is before and after each piece; those without one, and collections, do not count."""
    told = (of_piece != NONE) & (of_piece != GC)
    index = np.where(told, np.arange(len(of_piece)), -1)
    before = np.maximum.accumulate(index) if len(index) else index
    after = np.where(told, np.arange(len(of_piece)), len(of_piece))
    after = np.minimum.accumulate(after[::-1])[::-1] if len(after) else after
    padded = np.append(of_piece, NONE)
    return padded[np.where(before < 0, len(of_piece), before)], padded[after]


def _filled(of_piece: Ints) -> Ints:
    """Return the phases of pieces, those without one by what is before and after them.

    What follows an evaluation is the rest of it, as a metric over all that it predicted, until training goes on.
    """
    left, right = neighbours(of_piece)
    filled = np.full(len(of_piece), OTHER)
    filled[(left == DATA) & (right == FORWARD)] = PREPARE
    filled[left == EVALUATION] = EVALUATION
    return np.where(of_piece == NONE, filled, of_piece)
