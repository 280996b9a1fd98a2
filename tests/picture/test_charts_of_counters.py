"""Charts of counters: on one clock, in units that a person reads, with what happened beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.recorded import BEGAN, GPU_OF_MACHINE, Process, run_directory
from tests.sampled import WALL, S, curve, gpu, trainer
from whyidle.judge import judge, measured_of
from whyidle.model.evidence import Node, Run, Series
from whyidle.model.finding import PHASES
from whyidle.picture import picture_of
from whyidle.picture.clock import Zero
from whyidle.picture.counters import rate
from whyidle.picture.plot import Counter, Quantity, chart, rounded
from whyidle.read import load

ZERO = Zero(0, "start", "run")
POWER = Quantity("Power", "W")


def charts(run):
    measured = measured_of(run)
    return {one.title: one for one in picture_of(run, measured, judge(run, predict=False, measured=measured)).charts}


def counter(values, every=1.0, label="GPU 0"):
    value = np.asarray(values, np.float64)
    return Counter("power_w", label, (np.arange(len(value)) * every * S).astype(np.int64), value, ZERO)


def test_samples_that_fit_are_drawn_as_they_are():
    found = chart(POWER, [counter([100, 200, 150])])
    assert found.x.tolist() == [0, 1, 2]
    assert found.lines[0].y.tolist() == [100, 200, 150]
    assert found.lines[0].low is None
    assert found.note == ""


@given(st.lists(st.integers(1, 400), min_size=2, max_size=60), st.integers(2, 20))
def test_a_line_of_few_points_keeps_the_mean_the_least_and_the_most(values, points):
    found = chart(POWER, [counter(values)], points)
    (line,) = found.lines
    assert len(found.x) == len(line.y) <= max(points, 2)
    assert (np.diff(found.x) > 0).all()
    low = line.y if line.low is None else line.low
    high = line.y if line.high is None else line.high
    assert np.nanmin(low) == min(values)
    assert np.nanmax(high) == max(values)
    assert (low <= line.y + 0.1).all()
    assert (line.y <= high + 0.1).all()


def test_over_a_long_pause_no_line_is_drawn():
    one = counter([100] * 200)
    kept = np.r_[0:50, 150:200]
    (line,) = chart(POWER, [replace(one, time=one.time[kept], value=one.value[kept])]).lines
    assert np.isnan(line.y[60:140]).all()
    assert np.isfinite(line.y[:50]).all()


def test_of_many_gpus_three_are_drawn_and_that_is_said():
    found = chart(POWER, [counter([100 + n] * 5, label=f"GPU {n}") for n in range(64)])
    assert [line.label for line in found.lines] == ["lowest: GPU 0", "median: GPU 32", "highest: GPU 63"]
    assert found.note.startswith("3 of 64 are drawn")


def test_of_many_lines_the_least_and_the_most_of_all_samples_are_kept():
    value = np.full(6000, 50.0)
    value[1234] = 99.0
    lines = chart(POWER, [counter(value, label=f"GPU {n}") for n in range(5)], 100).lines
    assert all(line.high is None for line in lines), "bands of five would hide each other"
    assert [(line.whole.least, line.whole.most) for line in lines] == [(50, 99)] * 5
    assert lines[0].y.max() < 60


def test_samples_of_one_moment_have_no_rate():
    time = np.array([0, 10**9, 10**9, 2 * 10**9])
    grown = rate(Series("disk_read_bytes", "", time, np.array([0.0, 5.0, 6.0, 9.0])))
    assert np.isnan(grown[[0, 2]]).all()
    assert grown[[1, 3]].tolist() == [5, 3]


def test_what_was_not_measured_is_no_chart():
    assert chart(POWER, [counter([np.nan] * 5)]) is None
    assert chart(POWER, [counter([7])]) is None


@given(st.lists(st.floats(-1e12, 1e12) | st.just(float("nan")), max_size=20))
def test_rounding_keeps_four_digits(values):
    told = np.array(values, np.float64)
    near = rounded(told)
    known = np.isfinite(told)
    assert np.isnan(near[~known]).all()
    assert (abs(near[known] - told[known]) <= 5.1e-4 * abs(told[known]) + 1e-99).all()


def test_curves_share_a_clock_and_say_what_zero_is():
    run = Run(
        curves=(curve(gpu([50] * 30), gpu([250] * 30, name="power_w"), gpu([2**33] * 30, name="memory_used_bytes")),)
    )
    found = charts(run)
    assert set(found) == {"GPU utilization", "Power", "GPU memory in use"}
    assert {one.group for one in found.values()} == {"run"}
    assert found["Power"].clock == "2023-11-14 22:13:20 UTC"
    assert found["GPU memory in use"].unit == "GiB"
    assert found["GPU memory in use"].lines[0].y[0] == 8
    assert found["GPU utilization"].upper == 100


def test_marks_are_checkpoints_that_a_trainer_printed_and_shapes_that_findings_name():
    dips = [100] * 20
    values = (dips + [0] * 6) * 12
    log = trainer([0.5] * 600)
    saves = Series("checkpoint", "", WALL + np.arange(1, 12) * 26 * S, np.ones(11))
    found = charts(Run(curves=(curve(gpu(values)), replace(log, series=(*log.series, saves)))))
    kinds = [mark.kind for mark in found["GPU utilization"].marks]
    assert kinds.count("checkpoint") == 11
    shapes = [mark for mark in found["GPU utilization"].marks if mark.kind == "shape"]
    assert len(shapes) == 12, "each dip is marked"
    for mark in shapes:
        inside = slice(int(np.ceil(mark.start)), int(mark.end))
        assert max(values[inside]) < 10, "and it lies where the curve dips"
        assert mark.label == "dip"


def test_counters_of_a_machine_are_told_per_second_and_of_all_its_cpus():
    node = Node("node-a", "run/node-a", "a", (), 10 * S, WALL, facts=())
    time = 10 * S + np.arange(30) * S
    series = (
        Series("disk_read_bytes", "node-a", time, np.arange(30) * 5e6),
        Series("memory_available_bytes", "node-a", time, np.full(30, 2.0**35)),
    )
    found = charts(Run(nodes=(node,), series=series))
    assert found["Disk reads"].unit == "MB/s"
    assert np.nanmax(found["Disk reads"].lines[0].y) == 5
    assert found["Host memory available"].lines[0].y[0] == 32
    assert found["Disk reads"].clock == "start of the run, 2023-11-14 22:13:20 UTC"
    assert found["Host memory available"].x[0] == 0


def test_what_never_happened_is_no_chart_but_an_idle_gpu_is():
    run = Run(curves=(curve(gpu([0] * 30), gpu([0] * 30, name="pcie_rx_bytes_per_s")),))
    assert set(charts(run)) == {"GPU utilization"}


GPU_COLUMNS = ("time_ns", "gpu", "utilization_percent", "power_w", "pcie_rx_kb_s", "processes_of_job")
HOST_COLUMNS = ("time_ns", "cpu_busy_s", "disk_read_bytes")


def watched(tmp_path):
    """Return a job of ten seconds on the second of two GPUs of a machine, sampled every second, with a checkpoint."""
    job = Process()
    job.train(40)
    job.save(500)
    job.train(60)
    times = [BEGAN + at * S for at in range(11)]
    gpus = [(time, gpu, 80 * gpu, 200, "" if at % 2 else 3e6, gpu) for at, time in enumerate(times) for gpu in (0, 1)]
    host = [(time, 2.0 * at, 1000 * at) for at, time in enumerate(times)]
    csv = {"gpu.csv": (GPU_COLUMNS, gpus), "host.csv": (HOST_COLUMNS, host)}
    gpu_facts = [GPU_OF_MACHINE, GPU_OF_MACHINE | {"index": 1, "uuid": "GPU-1"}]
    return load([run_directory(tmp_path / "run", job, gpus=gpu_facts, csv=csv)])


def test_of_a_watched_job_its_own_gpus_are_drawn_on_the_clock_of_its_timeline(tmp_path):
    run = watched(tmp_path)
    measured = measured_of(run)
    picture = picture_of(run, measured, judge(run, predict=False, measured=measured))
    found = {one.title: one for one in picture.charts}
    utilization = found["GPU utilization"]
    assert [line.label for line in utilization.lines] == ["GPU 1"]
    assert utilization.x[0] == 3, "the run began three seconds before its first sample"
    assert found["Power"].upper == 400
    assert found["PCIe to the GPU"].lines[0].y[0] == 3000
    assert np.nanmax(found["Host CPU busy"].lines[0].y) == 25, "two of eight CPUs"
    (save,) = (mark for mark in utilization.marks if mark.kind == "checkpoint")
    (timeline,) = picture.timelines
    thread = timeline.lanes[1]
    (where,) = np.flatnonzero(thread.name == PHASES.index("save"))
    assert (save.start, save.end) == (thread.start[where] / 1e9, thread.end[where] / 1e9)


def test_what_is_near_zero_is_named_and_not_drawn(tmp_path):
    found = charts(watched(tmp_path))
    assert "Disk reads" not in found
    assert [one.note for one in found.values() if "near zero" in one.note] == [
        "Measured as well, and near zero throughout: Disk reads."
    ]


def test_shapes_are_marked_in_counters_of_a_job_of_which_no_step_was_seen(tmp_path):
    values = ([90] * 20 + [0] * 6) * 8
    rows = [(BEGAN + at * S, 0, value, 200, "", 1) for at, value in enumerate(values)]
    csv = {"gpu.csv": (GPU_COLUMNS, rows)}
    told = {"ended": {"mono_ns": BEGAN + 1000 * S, "exit_code": 0, "signal": None}}
    run = load([run_directory(tmp_path / "run", gpus=[GPU_OF_MACHINE], csv=csv, told=told)])
    chart = charts(run)["GPU utilization"]
    (shape,) = (mark for mark in chart.marks if mark.kind == "shape")
    assert shape.label == "sawtooth", "not the level, which is that of the whole curve"
    inside = (chart.x >= shape.start) & (chart.x < shape.end)
    assert inside.sum() == 6
    assert (chart.lines[0].y[inside] == 0).all()
