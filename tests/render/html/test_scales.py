"""Axes have few round numbers, in order, and show everything that is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.picture import Chart, Line
from whyidle.render.html.scales import Scale, along, started, time_label, upward


def chart(values: list[float], unit: str, upper: float | None = None) -> Chart:
    return Chart("", unit, "s", np.arange(float(len(values))), (Line("", np.array(values)),), upper=upper)


def labels(values: list[float], unit: str, upper: float | None = None) -> list[str]:
    return [tick.label for tick in upward(chart(values, unit, upper))[1]]


def test_percent_has_its_whole_and_half() -> None:
    assert labels([3.0, 20.0], "%", 100.0) == ["0", "50", "100"]


def test_a_limit_that_is_no_round_number_stands_at_the_top() -> None:
    assert labels([30.0, 33.0], "GiB", 79.6) == ["0", "20", "40", "60", "79.6"]


def test_more_than_the_limit_is_shown_all_the_same() -> None:
    scale, _ = upward(chart([300.0, 430.0], "W", 400.0))
    assert scale.high >= 430


def test_amounts_start_at_zero_and_clocks_do_not() -> None:
    assert labels([900.0, 1000.0], "MB/s")[0] == "0"
    assert labels([1300.0, 1410.0], "MHz")[0] == "1,300"


@pytest.mark.parametrize("values", [[], [float("nan")], [0.0], [5.0, 5.0], [-3.0, 2.0], [1e-9, 2e-9], [1e12]])
@pytest.mark.parametrize("unit", ["ms", "°C", "%"])
def test_every_chart_has_an_axis(values: list[float], unit: str) -> None:
    scale, ticks = upward(chart(values, unit))
    assert scale.high > scale.low
    assert len(ticks) >= 2


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9), st.sampled_from(["ms", "°C", "%"]))
def test_the_axis_holds_every_value(values: list[float], unit: str) -> None:
    scale, ticks = upward(chart(values, unit))
    shares = [scale.share(value) for value in values]
    assert min(shares) > -1e-6
    assert max(shares) < 1 + 1e-6
    assert 2 <= len(ticks) <= 7
    assert [tick.at for tick in ticks] == sorted(tick.at for tick in ticks)


@pytest.mark.parametrize(
    ("high", "expected"),
    [
        (0.9, ["0", "200 ms", "400 ms", "600 ms", "800 ms"]),
        (0.00045, ["0", "100 µs", "200 µs", "300 µs", "400 µs"]),
        (4.0, ["0", "1 s", "2 s", "3 s", "4 s"]),
        (100.0, ["0", "30 s", "60 s", "90 s"]),
        (440.0, ["0", "2 min", "4 min", "6 min"]),
        (500.0, ["0", "2 min", "4 min", "6 min", "8 min"]),
        (3600.0 * 3, ["0", "1 h", "2 h", "3 h"]),
        (3600.0 * 20, ["0", "4 h", "8 h", "12 h", "16 h", "20 h"]),
    ],
)
def test_time_has_the_unit_that_people_use(high: float, expected: list[str]) -> None:
    assert [tick.label for tick in along(Scale(0.0, high), "s", "start of the recording")] == expected


def test_between_whole_units_the_smaller_one_is_told() -> None:
    assert time_label(90, 30, 300) == "1:30 min"
    assert time_label(5400, 1800, 9000) == "1:30 h"
    assert time_label(2.5, 0.5, 4) == "2.5 s"
    assert time_label(-90, 30, 300) == "-1:30 min", "a curve may begin before the run"


def test_a_clock_of_a_calendar_gives_round_hours() -> None:
    ticks = along(Scale(0.0, 1200.0), "s", "2026-11-30 13:52:20 UTC")
    assert [tick.label for tick in ticks] == ["13:55", "14:00", "14:05", "14:10"]
    assert ticks[0].at == pytest.approx(160 / 1200)
    days = along(Scale(0.0, 86400.0 * 4), "s", "2026-02-27 12:00:00 UTC")
    assert [tick.label for tick in days] == ["Feb 28", "Mar 1", "Mar 2", "Mar 3"]


def test_other_clocks_are_told_as_they_are() -> None:
    assert started("start of the run, 2026-11-30 13:52:20 UTC") is None
    assert started("") is None
    assert started("2026-02-31 13:52:20 UTC") is None
    assert started("9999-12-31 23:59:59 UTC") is None


def test_steps_are_whole_numbers() -> None:
    assert [tick.label for tick in along(Scale(1.0, 3.0), "step")] == ["1", "2", "3"]
    assert [tick.label for tick in along(Scale(1.0, 4000.0), "step")] == ["1,000", "2,000", "3,000", "4,000"]


@given(st.floats(0, 1e6), st.floats(1e-6, 1e7), st.sampled_from(["s", "step_time_s"]))
def test_an_x_axis_has_few_numbers_in_order(low: float, width: float, axis: str) -> None:
    scale = Scale(low, low + width)
    if not scale.high > scale.low or width < low * 1e-9:
        return
    ticks = along(scale, axis)  # type: ignore[arg-type]
    assert len(ticks) <= 8
    assert all(-1e-3 <= tick.at <= 1 + 1e-3 for tick in ticks)
    assert [tick.at for tick in ticks] == sorted(tick.at for tick in ticks)
