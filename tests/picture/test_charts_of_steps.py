"""Charts of steps, and the timeline of a job that was watched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recorded import Process, run_directory
from tests.sampled import trainer
from whyidle.compare import compare
from whyidle.judge import judge, measured_of
from whyidle.model.evidence import Run, Series
from whyidle.model.finding import PHASES
from whyidle.model.picture import Mark
from whyidle.picture import picture_of
from whyidle.picture.steps import by_step, distribution
from whyidle.read import load

RUNS = Path(__file__).parents[1] / "runs"
WATCHED = RUNS / "watched"


def drawn(run):
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    return picture_of(run, measured, report), report


@pytest.mark.parametrize("name", ["checkpoint-every-50", "loader-workers-0", "loader-workers-2", "epochs-again"])
def test_the_phases_of_a_watched_run_are_those_of_its_summary(name):
    run = load([WATCHED / name])
    picture, report = drawn(run)
    (timeline,) = picture.timelines
    steps, thread = timeline.lanes
    assert (steps.kind, thread.kind) == ("step", "phase")
    assert (thread.start[1:] >= thread.end[:-1]).all(), "one phase at a time"
    low, high = steps.start[0], steps.end[-1]
    inside = np.minimum(thread.end, high) - np.maximum(thread.start, low)
    length = inside.clip(0)
    shares = report.summary.host_shares
    for code, phase in enumerate(PHASES[:-1]):  # the last is also what nothing was recorded of
        assert length[thread.name == code].sum() / (high - low) == pytest.approx(shares[phase], abs=1e-4)
    assert timeline.names[thread.name[0]] in PHASES


def test_steps_are_numbered_and_what_they_waited_is_beside_them(tmp_path):
    job = Process()
    job.train(60, data=40)
    picture, _ = drawn(load([run_directory(tmp_path / "run", job)]))
    chart = next(one for one in picture.charts if one.axis == "step")
    times, waits = chart.lines
    assert (chart.x[0], chart.x[-1]) == (2, 60)
    assert (times.label, waits.label) == ("step time", "waiting for data")
    assert chart.unit == "ms"
    assert np.allclose(waits.y, 40, atol=1)
    assert np.allclose(times.y, 100, atol=1)
    (timeline,) = picture.timelines
    assert chart.timeline == timeline.file
    assert timeline.window == (timeline.lanes[0].start[0], timeline.lanes[0].end[-1])
    assert timeline.names[timeline.lanes[0].name[0]] == "step 2"
    assert timeline.start == 0, "the start of the run"
    assert timeline.lanes[0].start[0] > 3_000_000_000, "the process began three seconds after the run"


def test_checkpoints_and_evaluations_are_marked_at_their_steps(tmp_path):
    job = Process()
    for _ in range(4):
        job.train(10)
        job.save(50)
        job.evaluate(3)
    job.train(10)
    picture, _ = drawn(load([run_directory(tmp_path / "run", job)]))
    chart = next(one for one in picture.charts if one.axis == "step")
    assert [mark.start for mark in chart.marks if mark.kind == "checkpoint"] == [11, 21, 31, 41]
    assert {mark.kind for mark in chart.marks} == {"checkpoint", "evaluation"}


def test_printed_steps_are_drawn_by_their_numbers():
    found = {one.title: one for one in drawn(Run(curves=(trainer([0.5] * 40, [0.1] * 40),)))[0].charts}
    chart = found["Step time, as printed"]
    assert chart.x.tolist() == list(range(1, 41))
    assert [line.y[0] for line in chart.lines] == [500, 100]


def test_a_checkpoint_that_was_printed_is_marked_at_the_step_before_it():
    log = trainer([0.5] * 40)
    saves = Series("checkpoint", "", log.series[0].time[[9, 29]] + 1, np.ones(2))
    found = drawn(Run(curves=(replace(log, series=(*log.series, saves)),)))[0].charts[0]
    assert [(mark.kind, mark.start) for mark in found.marks] == [("checkpoint", 10), ("checkpoint", 30)]


@given(st.lists(st.floats(0.01, 100), min_size=20, max_size=400))
def test_a_distribution_holds_every_step(times):
    (chart,) = distribution({"steps": np.array(times)})
    assert chart.lines[0].y.sum() == len(times)
    assert chart.axis == "step_time_s"
    assert (np.diff(chart.x) > 0).all()


def test_a_distribution_of_two_sides_is_in_percent_of_each():
    (chart,) = distribution({"before": np.full(30, 0.2), "after": np.full(90, 0.1)})
    assert [line.y.sum() for line in chart.lines] == pytest.approx([100, 100])
    assert chart.unit == "% of steps"


def test_a_distribution_tells_the_longest_step_and_how_many_steps_there_are():
    (chart,) = distribution({"before": np.array([0.1] * 199 + [7.0]), "after": np.linspace(0.1, 0.2, 50)}, "Of rank 3.")
    before, after = (line.whole for line in chart.lines)
    assert (before.count, before.least, before.most) == (200, 0.1, 7.0)
    assert (after.count, after.most) == (50, 0.2)
    assert chart.x[-1] < 1, "the last bin holds what is longer"
    assert chart.note == "Of rank 3. The last bar holds 1 step that took longer, up to 7 s."


def test_points_of_several_steps_keep_the_mean_of_all_and_the_marks_at_both_ends():
    values = np.full(1201, 0.1)
    values[-1] = 100.0
    marks = [Mark("checkpoint", "checkpoint", step, step) for step in (1.0, 600.0, 1201.0)]
    (chart,) = by_step("Step time", np.arange(1, 1202), {"step time": values}, marks, timeline="log")
    whole = chart.lines[0].whole
    assert (whole.count, whole.least, whole.most) == pytest.approx((1201, 100, 100_000))
    assert whole.mean == pytest.approx(values.mean() * 1e3)
    assert [mark.start for mark in chart.marks] == [chart.x[0], 600, chart.x[-1]]
    assert chart.timeline == "log"


def test_few_steps_have_no_distribution():
    assert list(distribution({"steps": np.full(19, 0.2)})) == []
    assert list(distribution({})) == []


@given(st.integers(2, 5000))
def test_no_chart_of_steps_has_more_points_than_a_screen_shows(count):
    values = np.arange(1, count + 1) / 1e3
    (chart,) = by_step("Step time", np.arange(count), {"step time": values})
    assert len(chart.x) <= 600
    (line,) = chart.lines
    high = line.y if line.high is None else line.high
    assert high.max() == pytest.approx(count, rel=1e-3)
    assert bool(chart.note) == (count > 600)


def test_compare_draws_both_sides_and_their_steps():
    found = compare(WATCHED / "loader-workers-0", WATCHED / "loader-workers-2", picture=True)
    assert found.before.picture.timelines
    assert found.after.picture.timelines
    assert [chart.axis for chart in found.charts] == ["step", "step_time_s"]
    assert [line.label for line in found.charts[0].lines] == ["before", "after"]
    plain = compare(WATCHED / "loader-workers-0", WATCHED / "loader-workers-2")
    assert plain.before.picture is None
    assert plain.charts == ()
