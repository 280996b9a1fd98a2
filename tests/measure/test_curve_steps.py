"""What a trainer printed: step times, data wait, and when it saved or evaluated."""

from __future__ import annotations

import numpy as np
import pytest

from tests.curves import gpus, run, series, values
from whyidle.measure.curve import measure
from whyidle.model.evidence import Curve, Run


def log(**columns):
    return Curve(
        "train.log",
        "log",
        tuple(series(name, column, None, interval=10.0) for name, column in columns.items()),
        step_log=True,
    )


def test_steps_and_their_wait_for_data():
    times = np.full(100, 0.5)
    times[0] = 30
    m = values(
        measure(Run(curves=(log(step_time_s=times, data_wait_s=np.full(100, 0.2), step=np.arange(0, 1000, 10)),)))
    )
    assert m["curve_step_time_s"] == pytest.approx(0.5)
    assert m["curve_step_time_mean_s"] == pytest.approx(0.5), "the first warms up"
    assert m["curve_steps"] == 991
    assert m["curve_data_wait_share"] == pytest.approx(20 / 79.5)
    assert "curve_busy_share" not in m


def test_a_wait_that_is_no_part_of_its_step():
    m = values(measure(Run(curves=(log(step_time_s=np.full(9, 0.1), data_wait_s=np.full(9, 0.3)),))))
    assert m["curve_data_wait_share"] == pytest.approx(0.75)


def test_a_log_without_step_times_tells_no_share():
    assert values(measure(Run(curves=(log(data_wait_s=np.full(9, 0.3)),)))).keys() == {"curve_steps"}


def saved_every(seconds, count=3600, length=20):
    column = np.full(count, 97.0)
    for start in range(seconds // 2, count, seconds):
        column[start : start + length] = 0
    return column


@pytest.mark.parametrize(("every", "event"), [(300, "checkpoint"), (100, None)], ids=["agrees", "does not"])
def test_dips_at_the_interval_at_which_the_log_says_it_saves(every, event):
    printed = series("checkpoint", np.ones(3600 // every), None, interval=float(every))
    step = series("step_time_s", np.full(60, 0.4), None, interval=60.0)
    wait = series("data_wait_s", np.zeros(60), None, interval=60.0)
    curve = run(*gpus(saved_every(320 if event is None else 300)))
    found = measure(Run(curves=(*curve.curves, Curve("train.log", "log", (printed, step, wait), step_log=True))))
    assert values(found).get("curve_dip_event") == event
    assert any("does not cover checkpoints" in told for told in found.contradictions) is (event == "checkpoint")


def test_how_many_steps_lie_between_two_that_are_logged():
    assert values(measure(Run(curves=(log(step=np.arange(0.0, 200.0, 10)),))))["curve_log_every"] == 10
