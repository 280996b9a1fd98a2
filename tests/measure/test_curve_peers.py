"""What several GPUs show together, and how curves of one run are joined."""

from __future__ import annotations

import numpy as np
import pytest

from tests.curves import gpus, run, series, values
from whyidle.measure.curve import measure
from whyidle.model.evidence import Curve, Run

RNG = np.random.default_rng(9)


def noisy(level, n=600):
    return np.clip(level + RNG.normal(size=n) * 2, 0, 100)


def test_the_gpu_that_is_less_busy_lags():
    m = values(measure(run(*gpus(noisy(90), noisy(91), noisy(50), noisy(90)))))
    assert (m["curve_lag_gpu"], m["curve_lag_counter"]) == ("gpu 2", "utilization")
    assert m["curve_lag_share"] == pytest.approx(0.1, abs=0.01)


def test_the_gpu_for_which_all_others_wait_is_the_one_that_never_does():
    m = values(measure(run(*gpus(noisy(60), noisy(99), noisy(61), noisy(60)))))
    assert m["curve_lag_gpu"] == "gpu 1"
    assert m["curve_lag_share"] == pytest.approx(0.29, abs=0.02)


def test_half_the_clock_under_full_load_lags():
    full = [np.full(60, 99.0)] * 4
    clocks = [np.full(60, 690.0 if i == 2 else 1530.0) for i in range(4)]
    m = values(measure(run(*gpus(*full, sm_clock_mhz=clocks))))
    assert (m["curve_lag_gpu"], m["curve_lag_counter"]) == ("gpu 2", "SM clock")
    assert m["curve_lag_slow_share"] == pytest.approx(0.54, abs=0.01)
    assert m["curve_lag_share"] == 0


def test_gpus_that_differ_by_chance_do_not():
    m = values(measure(run(*gpus(*(noisy(80 + RNG.normal()) for _ in range(8))))))
    assert m["curve_lag_gpu"] == "none"


def test_one_gpu_has_no_peers():
    assert "curve_lag_gpu" not in values(measure(run(*gpus(noisy(80)))))


def dips(columns, starts, length=20):
    for column in columns:
        for start in starts:
            column[start : start + length] = 0
    return columns


STARTS = np.array([31, 97, 290, 340, 480, 610, 655, 870, 1100, 1130])


def test_irregular_dips_of_all_gpus_are_correlated():
    m = values(measure(run(*gpus(*dips([noisy(97, 1200) for _ in range(4)], STARTS)))))
    assert m["curve_together_share"] > 0.9
    assert m["curve_correlated_share"] == pytest.approx(200 / 1200, abs=0.02)


def test_dips_of_each_by_itself_are_not():
    columns = [dips([noisy(97, 1200)], STARTS + 25 * i)[0] for i in range(4)]
    m = values(measure(run(*gpus(*columns))))
    assert m["curve_together_share"] < 0.5
    assert m["curve_correlated_share"] == 0


def test_counters_of_one_gpu_may_come_from_several_files():
    one = Curve("util.txt", "dmon", tuple(gpus(np.full(100, 99.0))))
    other = Curve("dcgm.txt", "dcgmi", (series("sm_active_share", np.full(100, 0.2)),))
    found = measure(Run(curves=(one, other)))
    assert values(found)["curve_sm_active_share"] == pytest.approx(0.2)
    assert values(found)["curve_gpus"] == 1


def test_a_recording_that_goes_on_in_another_file_is_one():
    parts = [series("utilization_percent", np.full(100, level), start=start) for level, start in ((20, 0), (80, 100))]
    found = measure(Run(curves=tuple(Curve(f"{i}.txt", "dmon", (part,)) for i, part in enumerate(parts))))
    assert values(found)["curve_busy_share"] == pytest.approx(0.5)
    assert found.warnings == ()


def test_of_two_recordings_of_one_time_the_longer_is_used_and_that_is_said():
    long, short = (series("utilization_percent", np.full(n, level)) for n, level in ((200, 90.0), (50, 10.0)))
    found = measure(Run(curves=(Curve("a.txt", "dmon", (long,)), Curve("b.txt", "dmon", (short,)))))
    assert values(found)["curve_busy_share"] == pytest.approx(0.9)
    assert "b.txt and a.txt both hold utilization_percent of GPU 0" in found.warnings[0]


def test_hosts_are_told_apart():
    found = measure(run(*gpus(noisy(90), noisy(90), node="a"), *gpus(noisy(30), noisy(30), node="b")))
    by = {m.subject: m.value for m in found.measurements if m.name == "curve_busy_share"}
    assert by["a"] == pytest.approx(0.9, abs=0.01)
    assert by["b gpu 1"] == pytest.approx(0.3, abs=0.01)
    assert values(found)["curve_busy_share"] == pytest.approx(0.6, abs=0.01)


def test_a_longer_curve_weighs_more():
    found = measure(
        run(series("utilization_percent", np.full(300, 100.0), 0), *[series("utilization_percent", np.zeros(100), 1)])
    )
    assert values(found)["curve_busy_share"] == pytest.approx(0.75)


def test_limits_have_the_names_that_a_watched_run_has():
    full = np.full(60, 99.0)
    found = gpus(
        full,
        throttle_reasons=[np.where(np.arange(60) < 30, 0x20, 0)],
        temperature_c=[np.full(60, 88.0)],
        sm_clock_mhz=[np.full(60, 600.0)],
    )
    m = values(measure(run(*found, facts=(("sm_clock_max_mhz", 1200.0, "", "gpu 0"),))))
    assert m["throttle_thermal_share"] == pytest.approx(0.5)
    assert m["throttle_power_share"] == 0
    assert m["clock_share"] == pytest.approx(0.5)
    assert m["temperature_c"] == 88


def test_what_was_not_recorded_is_not_measured():
    m = values(measure(run(*gpus(np.full(60, 99.0)))))
    assert not {"throttle_thermal_share", "clock_share", "temperature_c", "curve_hollow_share"} & m.keys()


def test_a_power_limit_below_the_highest_known_is_low():
    full = np.full(60, 99.0)
    falls = gpus(full, power_limit_w=[np.where(np.arange(60) < 30, 400.0, 200.0)])
    assert values(measure(run(*falls)))["power_limit_share"] == pytest.approx(0.75)
    lower = gpus(full, full, power_limit_w=[np.full(60, 300.0), np.full(60, 150.0)])
    assert values(measure(run(*lower)))["power_limit_share"] == pytest.approx(0.5)


def test_a_limit_of_which_no_higher_one_is_known_is_not_measured():
    assert "power_limit_share" not in values(measure(run(*gpus(np.full(60, 99.0), power_limit_w=[np.full(60, 300.0)]))))
    two = (("name", "A100", "", "gpu 0"), ("name", "T4", "", "gpu 1"))
    other = gpus(np.full(60, 99.0), np.full(60, 99.0), power_limit_w=[np.full(60, 400.0), np.full(60, 70.0)])
    assert "power_limit_share" not in values(measure(run(*other, facts=two)))


def test_memory_that_comes_with_a_shift_is_measured():
    late = np.arange(600) >= 200
    m = values(measure(run(*gpus(np.where(late, 99.0, 70.0), memory_used_bytes=[np.where(late, 3e10, 1e10)]))))
    assert m["curve_change_counter"] == "utilization"
    assert m["curve_change_memory_bytes"] == pytest.approx(2e10)


def test_a_gpu_lags_also_where_samples_see_its_waits_for_a_while_only():
    alias = np.where(np.arange(720) % 56 < 20, 0.0, 99.0)
    m = values(measure(run(*gpus(noisy(98, 720), noisy(98, 720), alias, noisy(98, 720)))))
    assert m["curve_lag_gpu"] == "gpu 2"
