"""What an hour back is, and what is only a clock that was set or lines a little out of order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from whyidle.read.daylight import HOUR, SECOND, hour_back
from whyidle.read.samples import steady

HERE = Path("train.log")


def minutes(*told):
    return [round(minute * 60) * SECOND for minute in told]


@pytest.mark.parametrize("interval", [1, 60, 300, 600])
def test_an_hour_back_is_the_end_of_daylight_saving_at_any_interval(interval):
    true = np.arange(50) * interval * SECOND
    assert hour_back(interval * SECOND - HOUR, interval * SECOND)
    assert steady(np.where(np.arange(50) < 25, true, true - HOUR), HERE, []) == true.tolist()


def test_a_clock_that_was_set_back_a_little_is_no_hour():
    said = []
    time = [*range(30), *range(28, 58)]
    told = steady([second * SECOND for second in time], HERE, said)
    assert np.diff(told).max() == SECOND
    assert said == ["train.log: its clock goes back once (daylight saving, or it was set)."]


def test_lines_of_several_processes_are_a_little_out_of_order():
    told = steady(minutes(*(minute + 0.1 * (minute % 2) - 0.2 * (minute % 3) * 6 for minute in range(90))), HERE, [])
    assert (np.diff(told) >= 0).all()
    assert told[-1] - told[0] < 2 * HOUR
