"""System metrics of the SageMaker profiler: a value a line."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.read import load


def row(kind, name, dimension, value, time):
    return json.dumps(
        {"Type": kind, "Name": name, "Dimension": dimension, "Value": value, "NodeId": "algo-1", "Timestamp": time}
    )


ROWS = [
    line
    for step in range(4)
    for line in (
        row("cpu", "cpu0", "CPUUtilization", 10.0, 1700000000.5 + step),
        row("cpu", "cpu1", "CPUUtilization", 30.0, 1700000000.5 + step),
        row("gpu", "gpu0", "GPUUtilization", 90.0 + step, 1700000000.5 + step),
        row("gpu", "gpu1", "GPUUtilization", 0.0, 1700000000.5 + step),
        row("gpu", "gpu0", "GPUMemoryUtilization", 14.5, 1700000000.5 + step),
    )
]


def curve_of(tmp_path, lines):
    path = tmp_path / "1700000000.algo-1.json"
    path.write_text("\n".join(lines))
    (curve,) = load([path]).curves
    return curve


def values(curve, name):
    return {one.subject: one.value.tolist() for one in curve.series if one.name == name}


def test_a_curve_for_each_gpu_and_the_mean_of_the_cores(tmp_path):
    curve = curve_of(tmp_path, ROWS)
    assert curve.clock == "wall"
    assert values(curve, "utilization_percent") == {"algo-1 gpu 0": [90, 91, 92, 93], "algo-1 gpu 1": [0, 0, 0, 0]}
    assert values(curve, "memory_used_percent") == {"algo-1 gpu 0": [14.5] * 4}
    assert values(curve, "cpu_busy_percent") == {"algo-1": [20] * 4}
    assert curve.series[0].time[0] == 1700000000_500000000


def test_damaged_lines_are_counted(tmp_path):
    curve = curve_of(tmp_path, [*ROWS, '{"Type": "gpu", "Na', "[1]", row("gpu", "gpu0", "GPUUtilization", "x", 1)])
    assert "3 lines are damaged" in curve.warnings[0]


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "NaN"])
def test_numbers_that_are_none(tmp_path, number):
    odd = row("gpu", "gpu0", "GPUUtilization", 777, 1700000009.5).replace("777", number)
    assert values(curve_of(tmp_path, [*ROWS, odd]), "utilization_percent")["algo-1 gpu 0"] == [90, 91, 92, 93]


def test_without_a_gpu_the_format_is_named(tmp_path):
    with pytest.raises(WhyIdleError, match="SageMaker system metrics without a GPU"):
        curve_of(tmp_path, [line for line in ROWS if '"gpu"' not in line])


@given(st.integers(0, 2000), st.binary(max_size=4))
def test_damage_is_a_message(tmp_path_factory, place, other):
    whole = "\n".join(ROWS).encode()
    path = tmp_path_factory.mktemp("damage") / "1.algo-1.json"
    for content in (whole[:place], whole[:place] + other + whole[place:]):
        path.write_bytes(content)
        with contextlib.suppress(WhyIdleError):
            load([path])


def test_real_files(corpus):
    folder = corpus / "sagemaker/smdebug"
    (curve,) = load([folder / "resources__1591160699.algo-1.json"]).curves
    assert {one.device for one in curve.series if one.name == "utilization_percent"} == {0, 1}
    for path in folder.glob("*incremental*algo-1.json"):
        with pytest.raises(WhyIdleError, match="without a GPU"):
            load([path])
