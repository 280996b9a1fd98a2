"""CSVs of one's own, of W&B and of MLflow: a time and a utilization column are enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import curve_in, damaged, of, seconds, values, well_formed

from whyidle.errors import WhyIdleError
from whyidle.read import load


def test_a_table_of_our_own(tmp_path):
    text = "t,gpu,util,mem_mb,power_w,sm_mhz\n" + "".join(
        f"{t},{gpu},{t + gpu},28000,292.5,1530\n" for t in range(3) for gpu in range(2)
    )
    curve = curve_in(tmp_path, text.strip())
    assert (curve.kind, curve.clock, curve.warnings) == ("CSV", "relative", ())
    assert values(curve, "utilization_percent", 1) == [1, 2, 3]
    assert values(curve, "memory_used_bytes") == [28000 * 2**20] * 3
    assert (values(curve, "power_w"), values(curve, "sm_clock_mhz")) == ([292.5] * 3, [1530] * 3)
    assert seconds(of(curve, "utilization_percent")) == [0, 1, 2]
    well_formed(curve)


@pytest.mark.parametrize(
    ("header", "first", "clock"),
    [
        ("time,util", "0.5", "relative"),
        ("timestamp,gpu_util", "2026-01-02T03:04:05Z", "wall"),
        ("Time,GPU Utilization", "2026-01-02 03:04:05.250", "wall"),
        ("ts,utilization_gpu_percent", "1767225600", "wall"),
        ("timestamp_ms,gpu_utilization", "1767225600250", "wall"),
        ("_timestamp,util", "1767225600.25", "wall"),
        ("datetime,gpu util", "1/2/2026 3:04", "wall"),
        ("elapsed_ms,gpu_util", "1000", "relative"),
        ("Timestamp (UTC),gpu_percent", "2026-01-02 03:04:05", "wall"),
        ("metrics-daemon/timestamp,metrics-daemon/cuda:0 (gpu:0)/gpu_utilization (%)/mean", "1767225600.25", "wall"),
        ("_runtime,gpu_util", "7", "relative"),
    ],
)
def test_names_and_ways_of_time(tmp_path, header, first, clock):
    curve = curve_in(tmp_path, f"{header}\n{first},45\n")
    assert (curve.clock, values(curve, "utilization_percent")) == (clock, [45])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
def test_delimiters(tmp_path, delimiter):
    text = "t,gpu,util\n0,0,45.5\n1,0,46.5\n".replace(",", delimiter)
    assert values(curve_in(tmp_path, text), "utilization_percent") == [45.5, 46.5]


def test_decimal_commas_of_spreadsheets(tmp_path):
    assert values(curve_in(tmp_path, "t;util\n0,5;45,5\n1,5;46,5\n"), "utilization_percent") == [45.5, 46.5]


def test_one_column_per_gpu_as_weights_and_biases_exports_it(tmp_path):
    text = '"Relative Time (Process)","run - system.gpu.0.gpu","run - system.gpu.1.gpu","run - system.gpu.1.gpu__MIN"\n'
    curve = curve_in(tmp_path, text + '"0","90","0","1"\n"15","91","0.4","1"\n"30","","0.2","1"\n')
    assert values(curve, "utilization_percent", 0) == [90, 91, None]
    assert values(curve, "utilization_percent", 1) == [0, 0.4, 0.2]
    assert (curve.clock, curve.warnings) == ("relative", ())


def test_columns_of_another_run_are_said_not_mixed(tmp_path):
    text = "Step,_timestamp,a - system.gpu.0.gpu,b - system.gpu.0.gpu\n1,1767225600,90,10\n2,1767225601,91,11\n"
    curve = curve_in(tmp_path, text)
    assert values(curve, "utilization_percent", 0) == [90, 91]
    assert "1 columns repeat" in curve.warnings[0]


def test_names_of_mlflow(tmp_path):
    text = "timestamp,system/gpu_0_utilization_percentage,system/gpu_0_memory_usage_megabytes\n"
    curve = curve_in(tmp_path, text + "1767225600250,45,1000\n1767225610250,46,1000\n")
    assert values(curve, "utilization_percent", 0) == [45, 46]
    assert values(curve, "memory_used_bytes", 0) == [1000 * 2**20] * 2


def test_hosts_are_told_apart(tmp_path):
    rows = "".join(f"{t},{host},{gpu},{t}\n" for t in range(3) for host in "ab" for gpu in range(2))
    curve = curve_in(tmp_path, "timestamp,host,gpu,utilization\n" + rows)
    assert [series.subject for series in curve.series] == ["a gpu 0", "a gpu 1", "b gpu 0", "b gpu 1"]
    assert values(curve, "utilization_percent", 1, "b") == [0, 1, 2]


@pytest.mark.parametrize("names", [("cuda:0", "cuda:1"), ("GPU 0", "GPU 1"), ("GPU-ab", "GPU-cd")])
def test_names_of_gpus(tmp_path, names):
    rows = "".join(f"{t},{name},{gpu}\n" for t in range(3) for gpu, name in enumerate(names))
    curve = curve_in(tmp_path, "time,device,gpu_util\n" + rows)
    assert values(curve, "utilization_percent", 1) == [1, 1, 1]


def test_a_gpu_without_number_gets_one_of_its_own(tmp_path):
    curve = curve_in(tmp_path, "time,gpu,gpu_util\n0,0,5\n0,,6\n0,1,7\n")
    assert sorted(series.device for series in curve.series) == [0, 1, 2]
    well_formed(curve)


@pytest.mark.parametrize(
    ("header", "cells", "read", "said"),
    [
        ("util", ["0.45", "1", "0"], [45, 100, 0], "taken as a share of 1"),
        ("gpu_util_share", ["0.45", "1", "0"], [45, 100, 0], ""),
        ("gpu_util_percent", ["0.45", "1", "0"], [0.45, 1, 0], ""),
        ("util", ["0", "1", "1"], [0, 1, 1], "taken as percent"),
        ("util", ["0", "0", "0"], [0, 0, 0], ""),
        ("util", ["0.45", "1", "2"], [0.45, 1, 2], ""),
    ],
)
def test_shares_are_told_from_percent(tmp_path, header, cells, read, said):
    curve = curve_in(tmp_path, f"t,{header}\n" + "".join(f"{t},{cell}\n" for t, cell in enumerate(cells)))
    assert values(curve, "utilization_percent") == read
    assert said in " ".join(curve.warnings)
    assert bool(said) == bool(curve.warnings)


def test_memory_without_unit_is_in_mib_where_bytes_make_no_sense(tmp_path):
    curve = curve_in(tmp_path, "t,util,memory_used\n0,5,28000\n1,5,28000\n")
    assert values(curve, "memory_used_bytes") == [28000 * 2**20] * 2
    assert "taken as MiB" in curve.warnings[0]


def test_gpus_of_equal_times_take_turns(tmp_path):
    rows = "".join(f"{t},{10 * gpu + t}\n" for t in range(5) for gpu in range(2))
    curve = curve_in(tmp_path, "t,util\n" + rows)
    assert values(curve, "utilization_percent", 1) == [10, 11, 12, 13, 14]
    assert "those of 2 GPUs" in curve.warnings[0]


def test_the_date_may_stand_in_its_own_column(tmp_path):
    curve = curve_in(tmp_path, "date,time,gpu_util\n2026-01-02,03:04:05,45\n2026-01-02,03:04:06,46\n")
    assert (curve.clock, of(curve, "utilization_percent").time[0]) == ("wall", 1_767_323_045 * 10**9)


def test_unreadable_times_and_values_are_said(tmp_path):
    curve = curve_in(tmp_path, "t,util\n0,5\nsoon,6\n2,many\n3,NaN\n4,7\n")
    assert values(curve, "utilization_percent") == [5, None, None, 7]
    assert len(curve.warnings) == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("timestamp,gpu_util\n", "nothing was recorded"),
        ("timestamp,gpu_util\nsoon,5\n", "written in no way that whyidle knows"),
        ("timestamp,gpu_util\n2026-01-02T03:04:05Z\n", "nothing was recorded"),
    ],
)
def test_what_cannot_be_judged_is_said(tmp_path, content, why):
    with pytest.raises(WhyIdleError, match=why):
        curve_in(tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [
        "step,val_loss\n1,2\n",
        "time,cpu_util\n0,5\n",
        "gpu utilization over time\nis what we look at\n",
        "time,%util\n0,5\n",
    ],
)
def test_tables_of_other_things_are_not_claimed(tmp_path, content):
    with pytest.raises(WhyIdleError, match="no format that whyidle knows"):
        curve_in(tmp_path, content)


numbers = st.one_of(st.just(np.nan), st.floats(1.5, 100).map(lambda value: round(value, 3)))


@settings(max_examples=40)
@given(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=60), st.booleans())
def test_what_was_written_is_read(tmp_path_factory, samples, wide):
    if wide:
        text = "t,gpu0_util,gpu1_util\n" + "".join(f"{t},{a},{b}\n" for t, (a, b) in enumerate(samples))
    else:
        rows = (f"{t},{gpu},{value}\n" for t, sample in enumerate(samples) for gpu, value in enumerate(sample))
        text = "t,gpu,util\n" + "".join(rows)
    curve = curve_in(tmp_path_factory.mktemp("csv"), text)
    for gpu in range(2):
        read = of(curve, "utilization_percent", gpu).value
        assert np.array_equal(read, [sample[gpu] for sample in samples], equal_nan=True)


def test_damage_is_said_or_survived(tmp_path):
    text = 't,host,gpu,"util"\n' + "".join(f"{t},a,{gpu},{t}.5\n" for t in range(3) for gpu in range(2))
    damaged(tmp_path, text.encode(), "gpus.csv")


@pytest.mark.parametrize(("name", "samples", "idle"), [("c35da1", 4514, (0.12, 0.18)), ("abacdc", 639, (0.0, 0.02))])
def test_recordings_of_a_training_with_eight_gpus(corpus, name, samples, idle):
    (curve,) = load([corpus / "telemetry" / "nanogpt_gpu_metrics" / f"gpu_metrics_{name}.csv"]).curves
    assert (curve.clock, curve.warnings) == ("wall", ())
    for gpu in range(8):
        series = of(curve, "utilization_percent", gpu)
        assert len(series.time) == samples
        assert idle[0] <= round(float(np.mean(series.value == 0)), 2) <= idle[1]
    well_formed(curve)


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        ((50, -1, 50, -1), [50, None, 50, None]),  # a code for "not measured" is not idle
        ((50,) * 20 + (1e308,), [50] * 20 + [None]),
        ((70, 300, 320, 310), [None] * 4),  # watts of a panel whose columns are called after GPUs
        ((0, 300, 700, 790), [None] * 4),  # a sum over GPUs
        ((99, 101, 100, 98), [99, 100, 100, 98]),  # rounded up
    ],
)
def test_what_a_counter_cannot_be_is_not_measured_and_said(tmp_path, cells, read):
    text = "Time,GPU 0\n" + "".join(f"2026-01-05 10:00:{second:02d},{cell}\n" for second, cell in enumerate(cells))
    curve = curve_in(tmp_path, text)
    assert values(curve, "utilization_percent") == read
    assert any("not possible" in warning for warning in curve.warnings) == (None in read)


@pytest.mark.parametrize("metric", ["", "DCGM_FI_DEV_GPU_UTIL"])
def test_legends_of_grafana(tmp_path, metric):
    header = f'"Time","{metric}{{Hostname=""n1"", gpu=""2"", instance=""n1:9400""}}"\n'
    curve = curve_in(tmp_path, header + "2026-01-05 10:00:00,55\n2026-01-05 10:00:15,60\n")
    assert values(curve, "utilization_percent", 2) == [55, 60]
