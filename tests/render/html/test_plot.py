"""A drawing leaves points out, never the least, the largest, or what nobody measured."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.picture import Chart, Line, Mark
from whyidle.render.html.plot import MUTED, TALL, area, drawn, path, placed, roles, thinned
from whyidle.render.html.scales import Scale

VALUES = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), min_size=1, max_size=400)


def line(values: list[float], label: str = "") -> Line:
    return Line(label, np.array(values))


@given(VALUES, st.integers(1, 60))
def test_thinning_keeps_extremes_and_order(values: list[float], count: int) -> None:
    x = np.arange(float(len(values)))
    at, y, low, high = thinned(x, line(values), count)
    assert len(at) == len(y) == min(count, len(values))
    assert (np.diff(at) > 0).all()
    if low is None or high is None:
        assert np.array_equal(y, values, equal_nan=True)
        return
    known = np.array(values)[np.isfinite(values)]
    if len(known):
        assert (np.nanmin(low), np.nanmax(high)) == (known.min(), known.max())
    measured = np.isfinite(y)
    assert (measured == np.isfinite(low)).all()
    slack = 1e-9 * (1 + np.abs(y[measured]))
    assert (low[measured] <= y[measured] + slack).all()
    assert (y[measured] <= high[measured] + slack).all()


def test_what_nobody_measured_is_a_gap() -> None:
    nan = float("nan")
    assert path(np.arange(5.0), np.array([1.0, 2.0, nan, nan, 4.0])) == "M0 1l1 1M4 4h0"
    assert path(np.arange(2.0), np.array([nan, nan])) == ""
    band = area(np.arange(4.0), np.array([0.0, 0.0, nan, 0.0]), np.array([5.0, 6.0, nan, 7.0]))
    assert band == "M0 5l1 1 0-6-1 0z"


@given(st.lists(st.tuples(st.integers(-999, 999), st.integers(-999, 999)), min_size=2, max_size=50))
def test_a_path_leads_through_its_points(points: list[tuple[int, int]]) -> None:
    x, y = (np.array(column, float) for column in zip(*points, strict=True))
    numbers = [int(number) for number in re.findall(r"-?\d+", path(x, y))]
    steps = np.array(numbers).reshape(-1, 2)
    assert np.cumsum(steps, axis=0).tolist() == [list(point) for point in points]


def test_a_long_gap_is_no_line_however_many_points_are_left_out() -> None:
    y = np.full(5000, 50.0)
    y[2000:3000] = np.nan
    chart = Chart("", "%", "s", np.arange(5000.0), (Line("", y),))
    only = next(drawn(chart, Scale(0, 5000), Scale(0, 100)))
    assert only.path.count("M") == 2
    assert only.band.count("z") == 2


def test_few_lines_have_colours_and_of_many_three_stand_out() -> None:
    lines = [line([value], str(value)) for value in (5.0, 1.0, 9.0, 3.0, 7.0)]
    assert roles(lines[:3]) == ("1", "2", "3")
    assert roles(lines) == ("1", "2", "3", MUTED, MUTED)
    silent = [line([float("nan")]) for _ in range(6)]
    assert set(roles(silent)) == {MUTED}
    assert roles(()) == ()


def test_lines_that_stand_out_lie_on_top() -> None:
    chart = Chart("", "", "s", np.arange(2.0), tuple(line([v, v]) for v in (5.0, 1.0, 9.0, 3.0, 7.0)))
    assert [one.role for one in drawn(chart, Scale(0, 1), Scale(0, 10))] == [MUTED, MUTED, "3", "2", "1"]


def test_a_distribution_is_steps_on_the_ground_and_nothing_where_bins_are_empty() -> None:
    chart = Chart("", "steps", "step_time_s", np.array([1.0, 2.0, 3.0, 4.0]), (line([2, 0, 1, 1]),))
    only = next(drawn(chart, Scale(0.5, 4.5), Scale(0, 2)))
    assert only.path == f"M0 {TALL}V0H250V{TALL}M500 {TALL}V200H750V200H1000V{TALL}"


def test_marks_are_cut_at_the_edges_and_names_do_not_cover_each_other() -> None:
    marks = [
        Mark("shape", "a dip that has a long name", 10, 20),
        Mark("event", "restart", 12, 12),
        Mark("checkpoint", "checkpoint", 90, 200),
        Mark("event", "gone", 300, 300),
    ]
    found = list(placed(marks, Scale(0, 100), tall=True))
    assert [(mark.label, mark.at, mark.width) for mark in found] == [
        ("a dip that has a long name", 10, 10),
        ("", 12, 0),
        ("", 90, 10),
    ]
    again = [Mark("shape", "dip", 10.0 * n, 10.0 * n + 1) for n in range(3)]
    assert [mark.label for mark in placed(again, Scale(0, 100), tall=False)] == ["dip", "", ""]


@pytest.mark.parametrize(("count", "shown"), [(100, 100), (1000, 0)])
def test_steps_are_ticks_while_they_can_be_told_apart(count: int, shown: int) -> None:
    marks = [Mark("step", f"step {n}", n, n) for n in range(count)]
    assert len(list(placed(marks, Scale(0, count), tall=True))) == shown
