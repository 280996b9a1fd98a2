"""CloudWatch's answers: sums over the GPUs of an instance become their mean."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.read import load

STAMPS = ["2026-01-02T03:04:00Z", "2026-01-02T03:05:00+00:00", "2026-01-02T03:06:00Z"]
ENVELOPE = {
    "job": "train-1",
    "instance_type": "ml.p4d.24xlarge",
    "gpus_per_instance": 8,
    "vcpus": 96,
    "gpu": "NVIDIA A100-SXM4-40GB",
}


def result(label, values):
    return {"Id": "m1", "Label": label, "Timestamps": STAMPS[: len(values)], "Values": values, "StatusCode": "Complete"}


def curve_of(tmp_path, answer, name="metrics.json"):
    path = tmp_path / name
    path.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    (curve,) = load([path]).curves
    return curve


def values(curve, name):
    return {one.subject: one.value.tolist() for one in curve.series if one.name == name}


def test_sums_are_divided_by_what_our_own_request_wrote_beside_them(tmp_path):
    answer = {
        "MetricDataResults": [
            result("algo-1 GPUUtilization", [800, 400, 0]),
            result("algo-2 GPUUtilization", [80, 40, 0]),
            result("algo-1 GPUMemoryUtilization", [80, 80, 80]),
            result("algo-1 CPUUtilization", [960, 96, 0]),
            result("algo-1 DiskUtilization", [5, 6, 7]),
        ],
        "whyidle": ENVELOPE,
    }
    curve = curve_of(tmp_path, answer)
    assert curve.clock == "wall"
    assert values(curve, "utilization_percent") == {"algo-1 gpu 0": [100, 50, 0], "algo-2 gpu 0": [10, 5, 0]}
    assert values(curve, "memory_used_percent") == {"algo-1 gpu 0": [10, 10, 10]}
    assert values(curve, "cpu_busy_percent") == {"algo-1": [10, 1, 0]}
    assert values(curve, "disk_busy_percent") == {"algo-1": [5, 6, 7]}
    assert np.diff(curve.series[0].time).tolist() == [60 * 10**9] * 2
    told = {(fact.subject, fact.name): fact.value for fact in curve.facts}
    assert told["algo-2 gpu 0", "gpus"] == 8
    assert told["algo-1 gpu 0", "name"] == "NVIDIA A100-SXM4-40GB"
    assert told["algo-1 gpu 0", "mean_of_gpus"] is True
    assert curve.warnings == ()


def test_a_sum_tells_how_many_gpus_there_are_at_least_and_it_is_said(tmp_path):
    curve = curve_of(tmp_path, {"MetricDataResults": [result("GPUUtilization", [390, 200, 0])]})
    assert values(curve, "utilization_percent") == {"gpu 0": [97.5, 50, 0]}
    assert "taken as 4 GPUs" in curve.warnings[0]


def test_get_metric_statistics_and_points_in_any_order(tmp_path):
    points = [
        {"Timestamp": stamp, "Average": value, "Unit": "Percent"}
        for stamp, value in zip(STAMPS, (30, 20, 10), strict=True)
    ]
    curve = curve_of(tmp_path, {"Label": "GPUUtilization", "Datapoints": points[::-1]})
    assert values(curve, "utilization_percent") == {"gpu 0": [30, 20, 10]}
    assert "taken as one GPU" in curve.warnings[0]


def test_times_as_numbers(tmp_path):
    points = [{"Timestamp": 1700000000 + 60 * step, "Average": 50} for step in range(3)]
    assert curve_of(tmp_path, {"Label": "GPUUtilization", "Datapoints": points}).series[0].time[0] == 1700000000 * 10**9


def test_a_sum_over_cpus_whose_number_is_not_told_is_left_out(tmp_path):
    answer = {"MetricDataResults": [result("GPUUtilization", [50]), result("CPUUtilization", [500])]}
    curve = curve_of(tmp_path, answer)
    assert not values(curve, "cpu_busy_percent")
    assert any("CPUUtilization" in warning for warning in curve.warnings)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"MetricDataResults": [result("CPUUtilization", [500])]}, r"without GPUUtilization \(CPUUtilization\)"),
        ({"Label": "GPUUtilization", "Datapoints": []}, "no points"),
        ('{"MetricDataResults": [', "damaged"),
        ('{"MetricDataResults": ' + "[" * 100_000, "damaged"),
    ],
)
def test_what_cannot_be_judged_is_told(tmp_path, answer, told):
    with pytest.raises(WhyIdleError, match=told):
        curve_of(tmp_path, answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(JSON, st.sampled_from(["Label", "Timestamps", "Values", "result", "whyidle", "gpus_per_instance", "point"]))
def test_other_types_are_a_message(tmp_path_factory, other, place):
    answer = {"MetricDataResults": [result("algo-1 GPUUtilization", [80, 40, 0])], "whyidle": dict(ENVELOPE)}
    if place in ("Label", "Timestamps", "Values"):
        answer["MetricDataResults"][0][place] = other
    elif place == "point":
        answer["MetricDataResults"][0]["Values"][1] = other
    elif place == "result":
        answer["MetricDataResults"].append(other)
    elif place == "whyidle":
        answer["whyidle"] = other
    else:
        answer["whyidle"][place] = other
    with contextlib.suppress(WhyIdleError):
        curve_of(tmp_path_factory.mktemp("types"), answer)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "NaN", "-1", "1" * 5000])
def test_numbers_that_are_none(tmp_path, number):
    answer = json.dumps({"MetricDataResults": [result("GPUUtilization", [80, 40, 777])]}).replace("777", number)
    with contextlib.suppress(WhyIdleError):
        assert np.nanmax(values(curve_of(tmp_path, answer), "utilization_percent")["gpu 0"]) == 80


def test_points_that_are_no_averages_are_told(tmp_path):
    points = [{"Timestamp": stamp, "Maximum": 90.0} for stamp in STAMPS]
    curve = curve_of(tmp_path, {"Label": "GPUUtilization", "Datapoints": points})
    assert values(curve, "utilization_percent") == {"gpu 0": [90, 90, 90]}
    assert any("the maximum of its period" in warning for warning in curve.warnings)
