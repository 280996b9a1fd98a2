"""Whatever the recording: every idle nanosecond has exactly one cause, and the causes sum to idle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.recordings import recordings
from tests.traces import Recording
from whyidle.measure import measure, questions
from whyidle.measure.analysis import Analysis
from whyidle.measure.sync import find, gains
from whyidle.model.evidence import Run
from whyidle.model.finding import CAUSES
from whyidle.model.intervals import overlap, union
from whyidle.read import load


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
