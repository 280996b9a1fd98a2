"""Whatever the recording: every idle nanosecond has exactly one cause, and the causes sum to idle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces import AUTOGRAD, MAIN, Recording
from whyidle.measure import measure, questions
from whyidle.measure.analysis import Analysis
from whyidle.measure.sync import find, gains
from whyidle.model.evidence import Kind, Run
from whyidle.model.finding import CAUSES
from whyidle.model.intervals import overlap, union
from whyidle.read import load

HOST_NAMES = [
    (Kind.OP, "aten::add"), (Kind.OP, "aten::item"), (Kind.OP, "aten::to"), (Kind.OP, "AddBackward0"),
    (Kind.RANGE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    (Kind.RANGE, "Optimizer.step#SGD.step"),
    (Kind.RANGE, "save_checkpoint"), (Kind.RANGE, "validation"), (Kind.RUNTIME, "cudaStreamSynchronize"),
    (Kind.RUNTIME, "cudaMalloc"), (Kind.PYTHON, "train.py(3): main"), (Kind.RUNTIME, "cudaModuleLoadData"),
]  # fmt: skip
DEVICE_NAMES = [
    (Kind.KERNEL, "sgemm"), (Kind.KERNEL, "ncclDevKernel_AllReduce"), (Kind.MEMSET, "Memset (Device)"),
    (Kind.MEMCPY, "Memcpy HtoD (Pageable -> Device)"), (Kind.MEMCPY, "Memcpy DtoH (Device -> Pageable)"),
]  # fmt: skip
times = st.integers(0, 4000)
lengths = st.integers(0, 1500)


@st.composite
def recordings(draw):
    r = Recording()
    for start, length, which, thread in draw(
        st.lists(st.tuples(times, lengths, st.sampled_from(HOST_NAMES), st.sampled_from([MAIN, AUTOGRAD])), max_size=25)
    ):
        r.slice(*which, start, start + length, thread)
    device = st.tuples(
        times, lengths, st.sampled_from(DEVICE_NAMES), st.none() | times, st.integers(0, 1), st.integers(7, 8)
    )
    for start, length, (kind, name), launched, gpu, stream in draw(st.lists(device, min_size=1, max_size=25)):
        took = draw(st.integers(1, 2000))
        r.work(kind, name, start, start + length + 1, launched, took=took, device=gpu, stream=stream)
    for number in range(draw(st.integers(0, 4))):
        r.step(number, number * 900, number * 900 + 850)
    return r


@settings(max_examples=300, deadline=None)
@given(recordings())
def test_every_idle_nanosecond_has_one_cause(recording):
    analysis = recording.analysis()
    for a in analysis.devices:
        idle = (a.high - a.low) - a.busy.total
        p = a.pieces
        assert (p.end > p.start).all()
        assert sum(a.totals.values()) == idle
        merged = union(p.start, p.end)
        assert merged.total == idle, "pieces overlap"
        gap = a.gaps.span
        assert (p.start >= gap.start[p.gap]).all()
        assert (p.end <= gap.end[p.gap]).all()


@settings(max_examples=150, deadline=None)
@given(recordings())
def test_shares_are_shares(recording):
    for m in questions(recording.analysis()):
        if m.name.endswith("_share"):
            assert -1e-9 <= m.value <= 1 + 1e-9, m


@settings(max_examples=100, deadline=None)
@given(recordings())
def test_waits_cost_at_most_the_idle_time_for_which_the_host_was_late(recording):
    analysis = recording.analysis()
    waits = find(analysis)
    for a in analysis.devices:
        won = gains(analysis, a, waits)
        assert (won >= 0).all()
        assert won.sum() <= a.late_idle.total
        assert won.sum() <= overlap(analysis.t.host.start[waits.calls], analysis.t.host.end[waits.calls], a.busy).sum()


@settings(max_examples=60, deadline=None)
@given(recordings(), st.integers(1, 10**9))
def test_a_recording_says_the_same_whenever_it_was_made(recording, shift):
    moved = Recording(
        [(start + shift, end + shift, *rest) for start, end, *rest in recording.host],
        [(start + shift, end + shift, *rest) for start, end, *rest in recording.device],
    )
    assert [m.value for m in questions(recording.analysis())] == [m.value for m in questions(moved.analysis())]


def test_causes_sum_to_idle_on_real_recordings(corpus):
    files = sorted((corpus / "kineto").rglob("*.json*"))
    judged = 0
    for file in files:
        if "rocprof" in str(file):
            continue
        for trace in load([file]).traces:
            if not len(trace.device_slices):
                continue
            analysis = Analysis(trace)
            idle = 1 - sum(a.busy.total for a in analysis.devices) / analysis.device_window
            assert sum(analysis.idle_share(cause) for cause in CAUSES) == pytest.approx(idle, abs=1e-3), file
            judged += 1
    assert judged > 40


def test_an_empty_run_measures_nothing():
    measured = measure(Run())
    assert not list(measured.measurements)
    assert np.isclose(sum(b.count for b in measured.detail.kernel_sizes), 0)
