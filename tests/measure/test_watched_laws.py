"""Laws of phases and losses, whatever the records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import recorded
from tests.recorded import GPU_OF_MACHINE, OTHER, Process, run_directory
from whyidle.measure import measure
from whyidle.measure.step_log.nesting import WORK, rows_of, training_thread
from whyidle.measure.step_log.watch import watch
from whyidle.model.evidence import Record
from whyidle.model.finding import PHASES
from whyidle.read import load

RECORD = st.tuples(
    st.sampled_from([int(kind) for kind in Record]),
    st.integers(0, 60),  # start, ms
    st.integers(0, 30),  # duration, ms
    st.integers(0, 7),  # flags
    st.integers(0, 3),  # value
    st.sampled_from([recorded.MAIN, OTHER]),
)
LAW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)


def log_of(tmp_path, records):
    process = Process()
    for kind, start, took, flags, value, thread in records:
        process.thread = thread
        process.put(kind, took, value, flags, at=start)
    (log,) = load(run_directory(tmp_path, process)).logs
    return log


@given(st.lists(RECORD, max_size=40))
@LAW
def test_phases_are_exclusive_and_sum_to_one(tmp_path, records):
    w = watch(log_of(tmp_path, records), None)
    if w is not None:
        assert set(w.shares) == set(PHASES)
        assert sum(w.shares.values()) == pytest.approx(1)
        assert min(w.shares.values()) >= 0


@given(st.lists(RECORD, min_size=1, max_size=40))
@LAW
def test_each_moment_belongs_to_one_record(tmp_path, records):
    log = log_of(tmp_path, records)
    thread = training_thread(log)
    if thread is None:
        return
    rows = rows_of(log, thread)
    assert (rows.piece_end > rows.piece_start).all()
    assert (rows.piece_start[1:] == rows.piece_end[:-1]).all()
    busy = sum(rows.piece_end[rows.piece_of >= 0] - rows.piece_start[rows.piece_of >= 0])
    covered = {
        ms for start, end in zip(rows.start, rows.end, strict=True) for ms in range(start // 10**6, end // 10**6)
    }
    assert busy == len(covered) * 10**6
    assert set(np.unique(rows.kind)) <= set(WORK)


@given(st.lists(RECORD, max_size=40), st.sampled_from(["cpu", "cuda", None]))
@LAW
def test_losses_are_part_of_the_time(tmp_path, records, device):
    process = Process()
    if device:
        process.setting("device", device)
    for kind, start, took, flags, value, thread in records:
        process.thread = thread
        process.put(kind, took, value, flags, at=start)
    run = load(run_directory(tmp_path, process, gpus=[GPU_OF_MACHINE]))
    for m in measure(run).measurements:
        if m.unit == "of watched" and not isinstance(m.value, str):
            assert 0 <= m.value <= 1 + 1e-9, m.name
