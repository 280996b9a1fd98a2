"""Curves of long jobs: what sensors see of a job is what it did, seen through their windows."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from world.__main__ import main
from world.curves import FILES, KINDS, asked, exporters, made, sampled, step_log, tables, write
from world.curves.kinds import Frame, disturbed, waiting
from world.curves.sampling import PRODUCTS, Samples, read, times
from world.curves.signal import Signal, joined
from world.curves.training import Training

FEW = settings(max_examples=25, deadline=None)
V100, H100 = PRODUCTS[0], PRODUCTS[2]
IDLE = ("startup", "sawtooth", "flat_low", "fluctuating", "correlated_dips", "idle_held")  # shapes of idle time


def job(step_s: float, wait: float, seconds: float = 600.0, gpus: int = 1, seed: int = 0) -> Training:
    return waiting(Frame(seconds, 1.0, gpus, wait, np.random.default_rng(seed)), step_s, wait)


def steady(step_s: float, wait: float) -> Training:
    training = job(step_s, wait)
    data, compute = np.full_like(training.data, wait * step_s), np.full_like(training.data, (1 - wait) * step_s)
    return replace(training, startup_s=4.0, data=data, compute=compute)


def seen(training: Training, window_s: float, seed: int = 0, gpu: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    return read(training, replace(H100, window_s=window_s), gpu, times(training, 1.0, rng), rng)


@FEW
@given(st.lists(st.tuples(st.floats(0.01, 9.0), st.floats(0, 1)), min_size=1, max_size=30), st.floats(0.1, 20.0))
def test_windows_side_by_side_hold_the_whole(pieces: list[tuple[float, float]], width: float) -> None:
    durations, level = (np.array(column) for column in zip(*pieces, strict=True))
    signal = joined(durations, level, float(durations.sum()))
    edges = np.arange(0, signal.edges[-1] + width, width)
    assert float((signal.over(edges[:-1], edges[1:]) * width).sum()) == pytest.approx(signal.integral[-1], abs=1e-6)


def test_a_signal_is_cut_off_where_the_recording_ends() -> None:
    signal = joined(np.array([2.0, 0.0, 8.0]), np.array([0.0, 0.5, 1.0]), 6.0)
    assert (signal.edges.tolist(), signal.level.tolist()) == ([0.0, 2.0, 6.0], [0.0, 1.0])
    assert signal.mean == pytest.approx(4 / 6)
    assert Signal(np.array([0.0, 1.0]), np.array([1.0])).over(np.array([2.0]), np.array([3.0])).tolist() == [0.0]


@FEW
@given(st.floats(0.1, 30.0), st.floats(0.05, 0.6), st.sampled_from((1 / 6, 0.5, 1.0)), st.integers(0, 99))
def test_the_mean_of_the_samples_is_the_busy_share(step_s: float, wait: float, window_s: float, seed: int) -> None:
    training, rng = job(step_s, wait, 1800.0, seed=seed), np.random.default_rng(seed)
    whenever = np.sort(rng.uniform(window_s, 1800.0, 3000))
    samples = read(training, replace(H100, window_s=window_s), 0, whenever, rng).utilization / 100
    error = 5 * samples.std() * np.sqrt(max(window_s / 1800, 1 / 3000)) + 0.01
    assert samples.mean() == pytest.approx(training.busy(0).mean, abs=error)


def test_a_step_as_long_as_the_interval_is_always_seen_at_the_same_place() -> None:
    """The one case in which the mean of aliased samples is not the busy share: they are in step with the job."""
    time = np.arange(5.0, 120.0)
    told = read(steady(1.0, 0.5), replace(H100, window_s=0.25), 0, time, np.random.default_rng(2)).utilization
    assert len(set(told.tolist())) == 1
    assert abs(told.mean() / 100 - 0.5) > 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_ranks_time_are_all_of_it(kind: str) -> None:
    training = KINDS[kind].make(Frame(900.0, 1.0, max(KINDS[kind].gpus), 0.2, np.random.default_rng(3))).training
    for gpu in range(training.gpus):
        parts = {name: training.part(name, gpu) for name in ("startup", "data", "compute", "spin", "pause", "held")}
        assert sum(parts.values()) == pytest.approx(1)
        assert training.busy(gpu).mean <= parts["compute"] + parts["spin"] + 1e-9


def test_steps_of_0_37_s_alias_at_1_hz() -> None:
    """1 / 0.37 s is 2.7 Hz; at 1 Hz that looks like 0.3 Hz: a period of 3.3 s that is none."""
    samples = seen(steady(0.37, 0.4), 1 / 6)
    values = samples.utilization[20:]
    assert values.std() > 30  # though the job never changes: a convincing, false curve
    assert values.mean() == pytest.approx(60, abs=4)
    wide = seen(steady(0.37, 0.4), 1.0)
    assert wide.utilization[20:].std() < 15


def test_slow_steps_keep_their_period() -> None:
    values = seen(job(12.0, 0.4), 1.0).utilization[20:]
    spectrum = np.abs(np.fft.rfft(values - values.mean()))
    assert len(values) / spectrum.argmax() == pytest.approx(12.0, rel=0.05)


def test_peers_of_a_late_rank_spin() -> None:
    training = KINDS["input_straggler"].make(Frame(600.0, 1.0, 4, 0.3, np.random.default_rng(5))).training
    busy = sorted(training.busy(gpu).mean for gpu in range(4))
    assert busy[0] == pytest.approx(0.7, abs=0.03)
    assert min(busy[1:]) > 0.95
    late = int(np.argmin([training.busy(gpu).mean for gpu in range(4)]))
    assert all(training.sm_active(gpu).mean < training.sm_active(late).mean + 0.1 for gpu in range(4))


def test_minutes_of_an_instance_are_summed_over_its_gpus() -> None:
    training = job(0.5, 0.2, 3600.0, gpus=4)
    samples = [seen(training, 1.0, gpu=gpu) for gpu in range(4)]
    answer = json.loads(exporters.cloudwatch(samples, H100))
    used = next(one for one in answer["MetricDataResults"] if one["Label"].endswith("GPUUtilization"))
    assert len(used["Timestamps"]) == len(used["Values"]) >= 59
    assert np.mean(used["Values"][1:]) == pytest.approx(4 * 80, abs=8)


def test_dmon_has_a_value_for_each_column() -> None:
    text = tables.dmon([seen(job(2.0, 0.2, gpus=2), 1.0, gpu=gpu) for gpu in range(2)], V100)
    header = next(line for line in text.splitlines() if line.startswith("#Date")).lstrip("#").split()
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert {len(row) for row in rows} == {len(header)}
    assert {row[header.index("gpu")] for row in rows} == {"0", "1"}
    assert all(0 <= int(row[header.index("sm")]) <= 100 for row in rows)


@pytest.mark.parametrize("units", [True, False])
def test_query_is_a_csv(units: bool) -> None:
    text = tables.query([seen(job(2.0, 0.2), 1.0)], V100, units=units)
    rows = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
    assert len(rows) == 600
    used = [row["utilization.gpu [%]"] for row in rows]
    assert all(re.fullmatch(r"\d+ %" if units else r"\d+", cell) for cell in used)


def test_a_reading_that_failed_is_no_zero() -> None:
    samples = seen(job(2.0, 0.2), 1.0)
    failed = replace(samples, utilization=np.full_like(samples.utilization, np.nan))
    assert "[N/A]," in tables.query([failed], V100, units=True)
    assert "DCGM_FI_DEV_GPU_UTIL{" not in exporters.dcgm([failed], V100)
    rows = [line.split() for line in tables.dmon([failed], V100).splitlines() if not line.startswith("#")]
    assert {row[6] for row in rows} == {"-"}


def test_dcgm_lines_are_samples_with_a_time() -> None:
    sample = re.compile(r'^DCGM_FI_\w+\{(\w+="[^"]*",?)+\} -?\d+(\.\d+)? \d{13}$')
    lines = exporters.dcgm([seen(job(2.0, 0.2, 60.0), 1.0)], V100).splitlines()
    assert all(line.startswith(("# HELP ", "# TYPE ")) or sample.match(line) for line in lines)


@pytest.mark.parametrize(
    ("style", "time", "wait"),
    [
        ("imagenet", r"Time +([\d.]+) \(", r"Data +([\d.]+) \("),
        ("detectron", r"last_time: ([\d.]+)", r"last_data_time: ([\d.]+)"),
        ("nanogpt", r"time ([\d.]+)ms", None),
    ],
)
def test_a_log_tells_what_steps_took(style: str, time: str, wait: str | None) -> None:
    training = job(2.0, 0.3)
    text = step_log.write(training, style, every=5)
    told = np.array([float(found) for found in re.findall(time, text)]) / (1000 if style == "nanogpt" else 1)
    assert told == pytest.approx(training.step_s[: training.steps : 5], abs=1e-3)
    if wait:
        assert np.mean([float(found) for found in re.findall(wait, text)]) == pytest.approx(0.6, rel=0.05)


def test_a_log_tells_of_checkpoints() -> None:
    made_job = KINDS["checkpoint"].make(Frame(1200.0, 1.0, 1, 0.2, np.random.default_rng(1)))
    text = step_log.write(made_job.training, "imagenet", every=50)
    assert text.count("Saving model checkpoint") >= 4


def truths(folder: Path) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads((folder / "truth.json").read_text("utf-8"))["jobs"]
    return jobs


def test_every_kind_is_written_with_its_truth(tmp_path: Path) -> None:
    folder = tmp_path / "curves"
    assert main(["curves", str(folder), "--count", str(len(KINDS)), "--seed", "4"]) == 0
    jobs = truths(folder)
    assert [one["kind"] for one in jobs] == list(KINDS)
    for one in jobs:
        assert sorted(path.name for path in (folder / one["name"]).iterdir()) == one["files"]
        assert FILES[one["format"]] in one["files"]
        assert len(one["devices"]) == one["gpus"]
        assert one["primary"] is None or one["primary"] in one["accepted"]
        assert one["severity"] == pytest.approx(one["asked"], abs=0.04)
        idle = 1 - np.mean([device["busy_share"] for device in one["devices"]])
        lost = sum(share for shape, share in one["shapes"].items() if shape[len("curve.") :] in IDLE)
        assert lost <= idle + 1e-6


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "one", 3, seed=9)
    write(tmp_path / "two", 3, seed=9)
    names = [path.relative_to(tmp_path / "one") for path in sorted((tmp_path / "one").rglob("*.*")) if path.is_file()]
    assert names
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit):
        main(["curves", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_samples_are_missing_now_and_then_and_never_out_of_order() -> None:
    for one in asked(30, seed=2):
        if one.seconds > 1200:
            continue
        rng = np.random.default_rng(one.seed)
        for samples in sampled(one, made(one, rng), rng):
            assert np.all(np.diff(samples.time) > 0)
            assert np.nanmin(samples.utilization) >= 0
            assert np.nanmax(samples.utilization) <= 100


@pytest.mark.parametrize("seed", range(5))
def test_healthy_jobs_are_busy_whatever_disturbs_them(seed: int) -> None:
    frame = Frame(1200.0, 1.0, 2, 0.0, np.random.default_rng(seed))
    training = disturbed(frame, KINDS["healthy"].make(frame)).training
    assert 0 < training.part("pause", 0) < 0.011
    assert training.busy(0).mean > 0.96


def test_a_capped_gpu_draws_what_it_may() -> None:
    training = KINDS["capped"].make(Frame(900.0, 1.0, 1, 0.3, np.random.default_rng(2))).training
    samples = seen(training, 1.0)
    late = samples.time > 500
    assert samples.power_w[late].mean() == pytest.approx(samples.limit_w[late].mean(), rel=0.05)
    assert samples.limit_w[late].mean() < 0.8 * H100.limit_w
    assert samples.clock_mhz[late].mean() < 0.75 * H100.sm_clock_mhz
    assert samples.utilization[late].mean() > 95
