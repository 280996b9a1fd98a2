"""Counters and steps as JSON: Prometheus' answers, gpustat, Telegraf, W&B's events, a trainer's lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import curve_in, of, seconds, values

from whyidle.errors import WhyIdleError
from whyidle.read import load

BEGAN = 1_767_607_200  # 2026-01-05 10:00 UTC


def answer(kind="matrix", name="DCGM_FI_DEV_GPU_UTIL", **labels):
    metric = {"gpu": "1", "Hostname": "n1", **labels} | ({"__name__": name} if name else {})
    points = [[BEGAN + 15 * place, str(10 * place)] for place in range(6)]
    one = {"metric": metric, **({"values": points} if kind == "matrix" else {"value": points[3]})}
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": [one]}}, indent=1)


def gpustat(second, busy=(0, 90)):
    gpus = [
        {"index": index, "name": "NVIDIA A100", "utilization.gpu": value, "memory.used": 1024, "processes": []}
        for index, value in enumerate(busy)
    ]
    return json.dumps({"hostname": "n1", "query_time": f"2026-01-05T10:00:{second:02d}.5", "gpus": gpus}, indent=4)


def test_a_range_query_of_prometheus_is_a_curve(tmp_path):
    curve = curve_in(tmp_path, answer(modelName='say "A100"'), "answer.json")
    assert values(curve, "utilization_percent", 1, "n1") == [0, 10, 20, 30, 40, 50]
    assert seconds(of(curve, "utilization_percent", 1, "n1")) == [0, 15, 30, 45, 60, 75]
    assert [fact.value for fact in curve.facts] == ['say "A100"']
    assert curve.clock == "wall"


def test_an_instant_query_is_a_point(tmp_path):
    assert values(curve_in(tmp_path, answer("vector"), "answer.json"), "utilization_percent", 1, "n1") == [30]


def test_a_sum_does_not_tell_what_it_is_of(tmp_path):
    with pytest.raises(WhyIdleError, match="have no name"):
        curve_in(tmp_path, answer(name=""), "answer.json")


@pytest.mark.parametrize("between", ["\n", "", "\n\n"])
def test_gpustat_again_and_again(tmp_path, between):
    curve = curve_in(tmp_path, (between or "\n").join(gpustat(second) for second in range(4)), "gpus.json")
    assert curve.kind == "JSON samples"
    assert values(curve, "utilization_percent", 0, "n1") == [0] * 4
    assert values(curve, "utilization_percent", 1, "n1") == [90] * 4
    assert values(curve, "memory_used_bytes", 1, "n1") == [2**30] * 4
    assert {fact.value for fact in curve.facts} == {"NVIDIA A100"}


@pytest.mark.parametrize(
    "row",
    [
        {"timestamp": BEGAN, "gpu": 3, "utilization": 55},
        {"fields": {"utilization_gpu": 55}, "tags": {"index": "3"}, "timestamp": BEGAN},
        {"_timestamp": BEGAN, "system.gpu.3.gpu": 55.0},
    ],
)
@pytest.mark.parametrize("as_list", [False, True])
def test_rows_of_others(tmp_path, row, as_list):
    rows = [{key: value + place if value == BEGAN else value for key, value in row.items()} for place in range(3)]
    text = json.dumps(rows) if as_list else "\n".join(map(json.dumps, rows))
    assert values(curve_in(tmp_path, text, "gpus.jsonl"), "utilization_percent", 3) == [55] * 3


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cut_anywhere_what_is_whole_is_read_and_the_rest_told(tmp_path_factory, data):
    text = data.draw(
        st.sampled_from([json.dumps([{"time": BEGAN + n, "gpu": 0, "utilization": 7} for n in range(9)]), answer()])
    )
    path = tmp_path_factory.mktemp("cut") / "gpus.json"
    path.write_text(text[: data.draw(st.integers(1, len(text) - 1))])
    try:
        (curve,) = load([path]).curves
    except WhyIdleError as error:
        assert error.message  # noqa: PT017
    else:
        assert set(curve.series[0].value) == {7}
        assert any("cut short" in warning for warning in curve.warnings)


def test_steps_as_lines_of_json(tmp_path):
    rows = [{"step": step, "loss": 2.0, "step_time": 0.3, "data_time": 0.1} for step in range(20)]
    curve = curve_in(tmp_path, "\n".join(map(json.dumps, rows)), "metrics.jsonl")
    assert curve.step_log
    assert set(of(curve, "step_time_s", None).value) == {0.3}
    assert set(of(curve, "data_wait_s", None).value) == {0.1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"best_metric": null, "global_step": 9, "log_history": [{"eval_loss": 1.0, "step": 9}]}', "Hugging Face"),
        ("device,GPU use (%)\ncard0,55\n", "AMD"),
        ("gpu,gfx_activity\n0,55\n", "AMD"),
        ("timestamp,host,metric,value\n2026-01-05T10:00:00Z,n1,gpu_utilization,5\n", "one value per row"),
        ('"Series";"Time";"Value"\n"GPU 0";"2026-01-05T10:00:00";5\n', "one value per row"),
        ("Label,GPUUtilization\nId,m1\n", "CloudWatch"),
        ("n1  Mon Jan  5 10:00:00 2026  550.54\n[0] NVIDIA A100 | 40'C,  93 % |\n", "gpustat"),
    ],
)
def test_what_is_not_read_is_named(tmp_path, text, told):
    with pytest.raises(WhyIdleError, match=told):
        curve_in(tmp_path, text, "file.json")


def test_a_trace_is_a_trace(tmp_path):
    event = {"ph": "X", "name": "step_time: 3", "ts": 1, "dur": 2, "step_time": 0.3, "args": {}}
    text = json.dumps({"traceEvents": [event]}) + "\n"
    with pytest.raises(WhyIdleError) as raised:
        curve_in(tmp_path, text * 3, "trace.json")
    assert "JSON samples" not in raised.value.message
