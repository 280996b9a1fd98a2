"""The timeline of a process that `whyidle run` watched: its steps, and what its training thread did."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.measure.step_log import phases
from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Codes, Ints
from whyidle.model.finding import PHASES
from whyidle.model.intervals import Intervals
from whyidle.picture.clock import Zero
from whyidle.picture.sketch import Sketch, joined, row_of

FIRST_STEP: Final = 2  # the first step of a job has no begin


def sketch_of(w: Watch, zero: Zero) -> Sketch:
    """Return a process as lanes; times count from the start of the run."""
    start, end, phase = pieces(w)
    spans, name = joined(start, end, phase)
    numbers = np.arange(len(w.steps.start)) + FIRST_STEP
    steps = Intervals(w.steps.start, w.steps.end)
    own = np.arange(len(numbers), dtype=np.int32) + len(PHASES)
    rank = w.log.process.rank
    return Sketch(
        "whole run" if rank is None else f"rank {rank}, whole run",
        w.log.path,
        rank,
        (*PHASES, *(f"step {number}" for number in numbers.tolist())),
        (
            row_of("steps", "step", steps, own, zero.at),
            row_of("training thread", "phase", spans, name, zero.at),
        ),
        window=(int(w.steps.start[0]) - zero.at, int(w.steps.end[-1]) - zero.at),
    )


def pieces(w: Watch) -> tuple[Ints, Ints, Codes]:
    """Return the time of the training thread in pieces with their phase, an index into PHASES, as shares count it.

    Of the time that a batch takes the thread waits first; to receive it once it is ready is preparation.
    """
    rows = w.rows
    phase = phases.of_pieces(rows, w.phase)
    own = (rows.piece_of >= 0) & (phase == phases.DATA)
    waits = np.where(own, rows.waiting[rows.piece_of], 1.0) if len(rows) else np.ones(len(phase))
    middle = rows.piece_start + np.rint((rows.piece_end - rows.piece_start) * waits).astype(np.int64)
    received = np.flatnonzero(middle < rows.piece_end)
    start = np.concatenate((rows.piece_start, middle[received]))
    end = np.concatenate((middle, rows.piece_end[received]))
    name = np.concatenate((phase, np.full(len(received), phases.PREPARE)))
    return start, end, name.astype(np.int32)


def stretches(w: Watch, phase: int) -> Intervals:
    """Return when the training thread was in a phase, each time as one stretch."""
    start, end, name = pieces(w)
    spans, _ = joined(start[name == phase], end[name == phase], name[name == phase])
    return spans
