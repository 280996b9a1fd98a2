"""Scrapes of exporters: a moment each, several a curve; ratios and percent are told apart by the metric's name."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.read import load

LABELS = 'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA A100-SXM4-80GB",Hostname="n1"'


def scrape(*values, time=""):
    """Return a scrape of dcgm-exporter: utilization in percent and tensor activity as a ratio, for each GPU."""
    lines = ["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for gpu, (utilization, tensor) in enumerate(values):
        labels = LABELS.format(gpu=gpu)
        lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {utilization}{time}")
        lines.append(f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} {tensor}{time}")
        lines.append(f"DCGM_FI_DEV_FB_USED{{{labels}}} 1024{time}")
    return "\n".join(lines) + "\n"


def curve_of(tmp_path, text, name="scrape.prom"):
    path = tmp_path / name
    path.write_text(text)
    (curve,) = load([path]).curves
    return curve


def values(curve, name):
    return {one.subject: one.value.tolist() for one in curve.series if one.name == name}


def test_one_scrape_is_a_point_of_which_nobody_knows_the_time(tmp_path):
    curve = curve_of(tmp_path, scrape((97, 0.031), (0, 0)))
    assert curve.clock == "relative"
    assert values(curve, "utilization_percent") == {"n1 gpu 0": [97], "n1 gpu 1": [0]}
    assert values(curve, "tensor_active_share") == {"n1 gpu 0": [0.031], "n1 gpu 1": [0]}
    assert values(curve, "memory_used_bytes") == {"n1 gpu 0": [2**30], "n1 gpu 1": [2**30]}
    assert {(fact.subject, fact.name, fact.value) for fact in curve.facts} >= {
        ("n1 gpu 0", "name", "NVIDIA A100-SXM4-80GB")
    }
    assert curve.warnings == ()


def test_several_scrapes_without_times_are_at_the_exporters_usual_interval_and_it_is_said(tmp_path):
    curve = curve_of(tmp_path, scrape((97, 0.1)) + scrape((0, 0)) + scrape((50, 0.2)))
    assert curve.clock == "assumed"
    assert values(curve, "utilization_percent") == {"n1 gpu 0": [97, 0, 50]}
    assert curve.series[0].time.tolist() == [0, 30 * 10**9, 60 * 10**9]
    assert "taken as 30 s apart" in curve.warnings[0]


def test_samples_with_times_are_where_they_say_in_whatever_order(tmp_path):
    curve = curve_of(tmp_path, scrape((10, 0), time=" 1700000015000") + scrape((97, 0), time=" 1700000000000"))
    assert curve.clock == "wall"
    assert values(curve, "utilization_percent") == {"n1 gpu 0": [97, 10]}
    assert curve.series[0].time.tolist() == [1700000000 * 10**9, 1700000015 * 10**9]


def test_a_counter_that_vanishes_leaves_a_gap(tmp_path):
    gone = "\n".join(line for line in scrape((97, 0.1)).splitlines() if "TENSOR" not in line) + "\n"
    curve = curve_of(tmp_path, scrape((97, 0.1)) + gone + scrape((97, 0.3)))
    (tensor,) = (one for one in curve.series if one.name == "tensor_active_share")
    assert tensor.time.tolist() == [0, 60 * 10**9]


def test_the_utilization_of_a_gpu_that_is_split_is_unknown(tmp_path):
    labels = LABELS.format(gpu=0) + ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="{}"'
    text = "".join(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels.format(part)}}} 0.5\n" for part in (7, 8))
    curve = curve_of(tmp_path, text)
    assert values(curve, "graphics_active_share") == {
        "n1 gpu 0 MIG 1g.10gb 7": [0.5],
        "n1 gpu 0 MIG 1g.10gb 8": [0.5],
    }
    assert not values(curve, "utilization_percent")
    assert "unknown" in curve.warnings[0]


def test_a_zero_for_a_part_of_a_gpu_is_no_measurement(tmp_path):
    labels = LABELS.format(gpu=0) + ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
    curve = curve_of(tmp_path, f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 0\nDCGM_FI_DEV_FB_USED{{{labels}}} 5\n")
    assert np.isnan(values(curve, "utilization_percent")["n1 gpu 0 MIG 1g.10gb 7"]).all()


def test_nvidia_gpu_exporter_numbers_gpus_and_calls_percent_a_ratio(tmp_path):
    text = "".join(
        f'nvidia_smi_utilization_gpu_ratio{{uuid="{uuid}"}} {busy}\n'
        f'nvidia_smi_clocks_current_sm_clock_hz{{uuid="{uuid}"}} 1.98e+09\n'
        f'nvidia_smi_gpu_info{{index="{index}",name="NVIDIA H200",uuid="{uuid}"}} 1\n'
        for uuid, index, busy in (("a", 1, 0.25), ("b", 0, 1))
    )
    curve = curve_of(tmp_path, text, "exporter.metrics")
    assert values(curve, "utilization_percent") == {"gpu 1": [25], "gpu 0": [100]}
    assert values(curve, "sm_clock_mhz")["gpu 0"] == pytest.approx([1980])
    assert {fact.value for fact in curve.facts} == {"NVIDIA H200"}


@pytest.mark.parametrize("text", ["NaN", "+Inf", "9223372036854775792", "140737488355330", "-1", "250", "x"])
def test_what_was_not_measured_is_unknown(tmp_path, text):
    curve = curve_of(tmp_path, scrape((text, 0.5)))
    assert np.isnan(values(curve, "utilization_percent")["n1 gpu 0"]).all()


def test_nothing_measured_at_all_is_an_error(tmp_path):
    with pytest.raises(WhyIdleError, match="no counter in it was measured"):
        curve_of(tmp_path, f"DCGM_FI_DEV_GPU_UTIL{{{LABELS.format(gpu=0)}}} NaN\n")


def test_times_for_some_samples_only_cannot_be_placed(tmp_path):
    with pytest.raises(WhyIdleError, match="some have a time"):
        curve_of(tmp_path, scrape((1, 0)) + scrape((1, 0), time=" 1700000000000"))


def test_metrics_of_no_gpu_counter(tmp_path):
    with pytest.raises(WhyIdleError, match="without a counter"):
        curve_of(tmp_path, 'DCGM_FI_DEV_XID_ERRORS{gpu="0"} 0\n')


def test_labels_may_hold_anything(tmp_path):
    labels = LABELS.format(gpu=0) + r',pod="a\"b}, gpu=\"7\" \\"'
    assert values(curve_of(tmp_path, f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 5\n"), "utilization_percent") == {
        "n1 gpu 0": [5]
    }


@given(st.integers(0, 900), st.binary(max_size=4))
def test_damage_is_a_message(tmp_path_factory, place, other):
    whole = (scrape((97, 0.1)) + scrape((0, 0))).encode()
    path = tmp_path_factory.mktemp("damage") / "scrape.prom"
    for content in (whole[:place], whole[:place] + other + whole[place:]):
        path.write_bytes(content)
        with contextlib.suppress(WhyIdleError):
            load([path])


def test_real_scrapes_idle_and_under_load(corpus):
    for path in sorted((corpus / "telemetry/nvidia_gpu_exporter_metrics").glob("*h?00*.metrics")):
        (curve,) = load([path]).curves
        assert values(curve, "utilization_percent") == {"gpu 0": [100.0 if "load" in path.name else 0.0]}
        assert curve.facts[0].value.startswith("NVIDIA H")


def test_what_is_used_and_what_is_free_make_the_total(tmp_path):
    free = f"DCGM_FI_DEV_FB_FREE{{{LABELS.format(gpu=0)}}} 3072\n"
    curve = curve_of(tmp_path, scrape((97, 0.1)) + free)
    assert values(curve, "memory_total_bytes") == {"n1 gpu 0": [4 * 2**30]}
    assert "memory_free_bytes" not in {one.name for one in curve.series}
    assert ("memory_bytes", 4 * 2**30) in {(fact.name, fact.value) for fact in curve.facts}


def test_a_gpu_that_pods_share_is_one_gpu(tmp_path):
    labels = 'gpu="0",UUID="GPU-a",Hostname="n1",container="c",namespace="ml",pod="{}"'
    text = "".join(
        f"DCGM_FI_DEV_GPU_UTIL{{{labels.format(pod)}}} {busy}\n" for busy in (10, 20, 30) for pod in ("a", "b", "c")
    )
    path = tmp_path / "gpus.prom"
    path.write_text(text)
    (curve,) = load([path]).curves
    (busy,) = (one for one in curve.series if one.name == "utilization_percent")
    assert busy.value.tolist() == [10, 20, 30]
