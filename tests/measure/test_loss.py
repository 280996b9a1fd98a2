"""The loss of each step, from the records of processes: which pass belongs to which step, and what is not known."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whyidle.measure.loss import RECORDED, losses
from whyidle.model.evidence import Process, Record, Run, StepLog

STEP_NS = 1000


def bits(loss):
    return struct.unpack("<q", struct.pack("<d", loss))[0]


def log_of(rows, rank=0, first=0):
    """Return a log of rows (kind, start, duration, value, flags), in order of their sequence."""
    order = np.argsort([row[1] for row in rows], kind="stable")
    kind, start, duration, value, flags = (np.array([rows[i][k] for i in order], np.int64) for k in range(5))
    return StepLog(
        f"log {rank}",
        Process("node", rank, 0, rank),
        kind.astype(np.uint8),
        flags.astype(np.uint8),
        np.ones(len(rows), np.uint16),
        np.arange(len(rows))[order] + first,
        start,
        duration,
        value,
    )


def steps_of(passes, late=0, flags=None):
    """Return rows of steps with these losses of their passes; losses are written `late` steps after they are."""
    rows, waiting = [], []
    for step, values in enumerate(passes):
        begin = step * STEP_NS
        if step == 0 or late == 0 or step % (late + 1) == 0:
            rows += waiting
            waiting = []
        for k, value in enumerate(values):
            at = begin + 100 * k
            waiting.append((Record.LOSS, at, 0, bits(value), (flags or {}).get(step, 0)))
            rows.append((Record.BACKWARD, at, 50, 0, 0))
        if not late:
            rows += waiting
            waiting = []
        rows.append((Record.STEP, begin + 900, 50, 0, 0))
    return [*rows, *waiting]


numbers = st.floats(-1e9, 1e9)


@given(st.lists(st.lists(numbers, min_size=1, max_size=4), min_size=3, max_size=30), st.integers(0, 5))
def test_a_step_has_the_mean_of_its_passes_however_late_they_were_read(passes, late):
    found = losses(Run(logs=(log_of(steps_of(passes, late)),)))
    assert found is not None
    assert found.source == RECORDED
    assert found.step.tolist() == list(range(1, len(passes) + 1))
    assert np.allclose(found.loss, [np.mean(values) for values in passes])


def test_a_step_with_a_loss_of_an_unknown_scale_is_not_known():
    found = losses(Run(logs=(log_of(steps_of([[1.0, 2.0]] * 6, flags={3: 1})),)))
    assert found is not None
    assert found.step.tolist() == [1, 2, 3, 5, 6]


def test_no_number_is_a_loss_and_one_that_is_missing_is_none():
    found = losses(Run(logs=(log_of(steps_of([[1.0], [np.nan], [], [np.inf], [1.0]])),)))
    assert found is not None
    assert found.step.tolist() == [1, 2, 4, 5]
    assert found.not_finite == 2


def test_steps_after_records_that_are_lost_cannot_be_counted():
    rows = steps_of([[float(step)] for step in range(10)])
    log = log_of([*rows[:15], *rows[18:]])
    sequence = log.sequence.copy()
    sequence[15:] += 3
    cut = StepLog(log.path, log.process, log.kind, log.flags, log.thread, sequence, log.start, log.duration, log.value)
    found = losses(Run(logs=(cut,)))
    assert found is not None
    assert found.step.tolist() == [1, 2, 3, 4, 5]


def test_losses_of_a_training_in_another_thread_are_not_of_this_one():
    mine, other = steps_of([[1.0]] * 6), steps_of([[100.0]] * 4)
    log = log_of([*mine, *((kind, start + 50, *rest) for kind, start, *rest in other)])
    thread = np.where((log.start % STEP_NS) % 100 == 50, 2, 1).astype(np.uint16)
    found = losses(Run(logs=(replace(log, thread=thread),)))
    assert found is not None
    assert set(found.loss) == {1.0}


def test_ranks_lose_their_mean():
    ranks = [log_of(steps_of([[float(rank)]] * (5 + rank)), rank) for rank in range(3)]
    found = losses(Run(logs=tuple(ranks)))
    assert found is not None
    assert found.step.tolist() == [1, 2, 3, 4, 5]
    assert set(found.loss) == {1.0}


def test_who_recorded_none_has_none():
    assert losses(Run()) is None
    assert losses(Run(logs=(log_of(steps_of([[]] * 6)),))) is None
