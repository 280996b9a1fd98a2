"""`dcgmi dmon`: short names, entities, no time."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.read import load

HEADER = "#Entity   GPUTL   SMACT   FBUSD   POWER\nID\n"
TABLE = (
    HEADER
    + "GPU 0     97      0.912   1024    301.5\nGPU 1     0       0.000   0       N/A\n"
    + HEADER
    + "GPU 0     50      0.400   1024    250.0\nGPU 1     10      N/A     0       60.1\n"
)


def curve_of(tmp_path, text):
    path = tmp_path / "dmon.txt"
    path.write_text(text)
    (curve,) = load([path]).curves
    return curve


def values(curve, name):
    return {one.subject: one.value.tolist() for one in curve.series if one.name == name}


def test_a_sample_a_second_for_each_gpu(tmp_path):
    curve = curve_of(tmp_path, TABLE)
    assert curve.clock == "assumed"
    assert values(curve, "utilization_percent") == {"gpu 0": [97, 50], "gpu 1": [0, 10]}
    assert values(curve, "sm_active_share")["gpu 0"] == [0.912, 0.4]
    assert values(curve, "memory_used_bytes")["gpu 0"] == [2**30, 2**30]
    assert curve.series[0].time.tolist() == [0, 10**9]


def test_not_measured_is_unknown(tmp_path):
    curve = curve_of(tmp_path, TABLE)
    assert np.isnan(values(curve, "power_w")["gpu 1"]).tolist() == [True, False]
    assert np.isnan(values(curve, "sm_active_share")["gpu 1"]).tolist() == [False, True]


def test_instances_belong_to_the_gpu_above_them(tmp_path):
    text = "# Entity  GRACT  SMACT\n    Id\n GPU 3  0.429  0.429\n GPU-I 0  0.000  0.000\n GPU-I 1  0.750  0.750\n"
    assert values(curve_of(tmp_path, text), "graphics_active_share") == {
        "gpu 3": [0.429],
        "gpu 3 MIG GPU-I 0": [0],
        "gpu 3 MIG GPU-I 1": [0.75],
    }


def test_a_zero_for_a_part_of_a_gpu_is_no_measurement(tmp_path):
    curve = curve_of(tmp_path, HEADER + "GPU 0  97  0.9  1  1\nGPU-I 0  0  0.9  1  1\n")
    busy = values(curve, "utilization_percent")
    assert busy["gpu 0"] == [97]
    assert np.isnan(busy["gpu 0 MIG GPU-I 0"]).all()


def test_times_before_the_lines_are_used(tmp_path):
    rows = [f"2026-01-02 03:04:{second:02d} GPU 0     {second}     0.5   1   1" for second in (10, 20, 30)]
    curve = curve_of(tmp_path, HEADER + "\n".join(rows))
    assert curve.clock == "wall"
    assert np.diff(curve.series[0].time).tolist() == [10 * 10**9] * 2


def test_rows_that_do_not_fit_are_counted(tmp_path):
    curve = curve_of(tmp_path, TABLE + "GPU 0     9")
    assert any("1 lines do not fit" in warning for warning in curve.warnings)


def test_no_row_is_an_error(tmp_path):
    with pytest.raises(WhyIdleError, match="without a sample"):
        curve_of(tmp_path, HEADER)


@given(st.integers(0, 400), st.binary(max_size=4))
def test_damage_is_a_message(tmp_path_factory, place, other):
    path = tmp_path_factory.mktemp("damage") / "dmon.txt"
    for content in (TABLE.encode()[:place], TABLE.encode()[:place] + other + TABLE.encode()[place:]):
        path.write_bytes(content)
        with contextlib.suppress(WhyIdleError):
            load([path])
