"""Which shape a curve has, and how much idle time each holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.curves import gpus, run, series, values, wave
from whyidle.measure.curve import measure
from whyidle.measure.curve.shape import PARTS

RNG = np.random.default_rng(7)
BUSY = np.full(600, 98.0)


def measured(*columns, **more):
    return values(measure(run(*gpus(*columns, **more))))


def shapes(m):
    """Return the shapes that hold 2% of the curve and more."""
    return {name for name in PARTS if m.get(f"curve_{name}_share", 0.0) >= 0.02}


def test_a_busy_gpu_has_none():
    m = measured(BUSY)
    assert m["curve_busy_share"] == pytest.approx(0.98)
    assert shapes(m) <= {"rest"}


def test_leading_zeros_are_start_up():
    m = measured(np.concatenate((np.zeros(150), BUSY)))
    assert shapes(m) == {"startup"}
    assert m["curve_startup_s"] == 150


def test_a_blip_does_not_end_the_start_up():
    m = measured(np.concatenate((np.zeros(50), [40], np.zeros(100), BUSY)))
    assert m["curve_startup_s"] > 140


def test_zeros_that_come_back_are_no_start_up():
    m = measured(wave(600, 70, 0.5)[::-1])
    assert shapes(m) == {"dip"}


@pytest.mark.parametrize(
    ("memory", "expected"), [(70e9, {"held"}), (2e8, {"rest"}), (np.nan, {"held"})], ids=["held", "free", "unknown"]
)
def test_a_gpu_left_idle(memory, expected):
    column = np.concatenate((BUSY, np.zeros(300)))
    m = measured(column, memory_used_bytes=[np.full(900, memory)])
    assert shapes(m) - {"rest"} == expected - {"rest"}
    assert m["curve_rest_share"] >= (0.3 if expected == {"rest"} else 0)
    if "held" in expected:
        assert m["curve_held_s"] == 300
        assert m["curve_held_known"] is bool(np.isfinite(memory))


def test_a_gpu_that_never_works_is_held_all_the_time():
    m = measured(np.zeros(300), processes=[np.ones(300)])
    assert m["curve_held_share"] == 1
    assert m["curve_busy_share"] == 0
    assert m["curve_startup_share"] == 0


def test_a_sawtooth_has_its_interval():
    m = measured(wave(900, 30, 0.6))
    assert shapes(m) == {"dip"}
    assert m["curve_dip_interval_s"] == pytest.approx(30, rel=0.02)
    assert m["curve_period_s"] == pytest.approx(30, rel=0.02)
    assert m["curve_dip_s"] == 12


def test_short_dips_far_apart_are_a_sawtooth_too():
    column = np.full(3600, 97.0)
    for start in range(200, 3600, 300):
        column[start : start + 15] = 0
    m = measured(np.clip(column + RNG.normal(size=3600), 0, 100))
    assert m["curve_dip_share"] == pytest.approx(0.05, abs=0.01)
    assert m["curve_dip_interval_s"] == pytest.approx(300, rel=0.02)


def test_dips_at_random_are_no_sawtooth():
    column = np.full(3600, 97.0)
    for start in RNG.integers(0, 3500, 60):
        column[start : start + RNG.integers(5, 30)] = 0
    m = measured(column)
    assert m["curve_dip_share"] == 0
    assert shapes(m) == {"fluctuating"}


@pytest.mark.parametrize("level", [15, 45, 80])
def test_a_steady_low_curve_is_flat(level):
    m = measured(np.clip(level + RNG.normal(size=600) * 3, 0, 100))
    assert shapes(m) == {"flat"}
    assert m["curve_level_share"] == pytest.approx(level / 100, abs=0.01)


def test_a_shift_of_utilization_costs_what_is_below_the_better_level():
    m = measured(np.concatenate((np.full(300, 96.0), np.full(300, 56.0))) + RNG.normal(size=600))
    assert m["curve_change_counter"] == "utilization"
    assert m["curve_change_share"] == pytest.approx(0.2, abs=0.01)
    assert m["curve_change_s"] == pytest.approx(300, abs=3)
    assert (m["curve_change_from"], m["curve_change_to"]) == pytest.approx((96, 56), abs=1)


def test_a_shift_of_the_clock_shows_where_utilization_does_not():
    clock = np.concatenate((np.full(300, 1755.0), np.full(300, 877.0)))
    m = measured(BUSY, sm_clock_mhz=[clock])
    assert m["curve_change_counter"] == "SM clock"
    assert m["curve_slowed_share"] == pytest.approx(0.245, abs=0.01)
    assert m["curve_change_share"] == 0


def test_a_clock_that_falls_while_the_gpu_idles_is_no_shift():
    column = np.concatenate((BUSY, np.zeros(600)))
    m = measured(column, sm_clock_mhz=[np.where(column > 0, 1755.0, 210.0)])
    assert m["curve_slowed_share"] == 0
    assert m["curve_change_counter"] == "none"


def test_utilized_and_hollow():
    m = measured(BUSY, sm_active_share=[np.full(600, 0.2)], tensor_active_share=[np.full(600, 0.01)])
    assert m["curve_hollow_share"] == pytest.approx(1)
    assert m["curve_sm_active_share"] == pytest.approx(0.2)


def test_a_missing_value_is_neither_zero_nor_idle():
    column = BUSY.copy()
    column[100:400] = np.nan
    found = measure(run(*gpus(column)))
    m = values(found)
    assert m["curve_busy_share"] == pytest.approx(0.98)
    assert m["curve_zero_share"] == 0
    assert "a gap in the recording, 5 min" in found.warnings[0]


def test_no_value_at_all_is_unknown():
    found = measure(run(*gpus(np.full(50, np.nan))))
    assert "curve_busy_share" not in values(found)
    assert found.devices == ()
    assert "unknown, not zero" in found.warnings[0]


def test_one_sample_is_a_point():
    found = measure(run(*gpus([35.0])))
    m = values(found)
    assert m["curve_busy_share"] == pytest.approx(0.35)
    assert not {"curve_s", "curve_startup_share", "curve_flat_share"} & m.keys()
    assert found.devices[0].busy_share == pytest.approx(0.35)


def test_gr_engine_active_stands_in_where_a_gpu_is_split():
    split = [
        series("utilization_percent", np.full(60, np.nan), 0),
        series("graphics_active_share", np.full(60, 0.4), 0, instance="1g.10gb 7"),
    ]
    found = measure(run(*split))
    assert values(found)["curve_busy_share"] == pytest.approx(0.4)
    assert found.devices[0].instance == "1g.10gb 7"
    assert found.warnings == ()


def test_a_stuck_counter_is_told_and_ignored():
    found = measure(run(*gpus(BUSY, graphics_active_share=[np.zeros(600)], sm_active_share=[np.zeros(600)])))
    assert "GR_ENGINE_ACTIVE stays at 0" in found.contradictions[0]
    assert "curve_hollow_share" not in values(found)


def test_utilized_without_tensor_cores_is_a_contradiction_to_explain():
    found = measure(run(*gpus(BUSY, tensor_active_share=[np.full(600, 0.03)])))
    assert "tensor cores work in 3%" in found.contradictions[0]


@given(
    st.lists(st.sampled_from(["zero", "busy", "low", "noise", "wave", "gap"]), min_size=1, max_size=6),
    st.integers(0, 1 << 30),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_the_parts_of_idle_time_are_all_of_it(pieces, seed, count):
    """Of each GPU and of all: no moment is told twice, none is left out."""
    rng = np.random.default_rng(seed)
    made = {
        "zero": np.zeros,
        "busy": lambda n: np.full(n, 99.0),
        "low": lambda n: rng.uniform(20, 40, n),
        "noise": lambda n: rng.uniform(0, 100, n),
        "wave": lambda n: wave(n, 12, 0.5),
        "gap": lambda n: np.full(n, np.nan),
    }
    columns = [np.concatenate([made[piece](int(rng.integers(5, 120))) for piece in pieces]) for _ in range(count)]
    found = measure(run(*gpus(*columns)))
    m = values(found)
    if "curve_s" not in m or "curve_rest_share" not in m:
        return
    parts = [m.get(f"curve_{name}_share", 0.0) for name in PARTS]
    assert all(-1e-9 <= part <= 1 + 1e-9 for part in parts)
    assert sum(parts) == pytest.approx(m["curve_idle_share"], abs=1e-4)
    assert m["curve_idle_share"] == pytest.approx(1 - m["curve_busy_share"])
    by_gpu = {}
    for one in found.measurements:
        if one.subject and one.name != "curve_zero_share":
            by_gpu.setdefault(one.subject, {})[one.name] = one.value
    for told in by_gpu.values():
        assert sum(told.values()) == pytest.approx(1, abs=1e-4), "busy and the parts of idle"
