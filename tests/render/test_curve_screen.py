"""What a person sees of curves, whole: read the snapshots as the pictures that they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from whyidle import cost
from whyidle.model.detail import CurvePicture, Detail
from whyidle.model.finding import (
    DeviceBusy,
    EvidenceFile,
    Finding,
    Fix,
    GpuCount,
    Location,
    Prediction,
    Report,
    RunInfo,
    Summary,
    Unknown,
)
from whyidle.render import render
from whyidle.render.passages import place
from whyidle.render.sparks import BLOCKS, GAP, spark

A100 = "NVIDIA A100-SXM4-80GB"
STARTS = tuple(0.0 if i < 4 else 0.97 for i in range(48))
SAW = tuple(0.55 if i % 3 == 0 else 0.99 for i in range(48))
SAWTOOTH = Finding(
    "curve.sawtooth",
    "medium",
    0.48,
    "Utilization falls to zero about every 75 s, which costs 16% of the time.",
    0.16,
    "18 dips below 10%, of 12 s each, autocorrelation 0.93, all 8 GPUs together",
    (Location("gpu.txt", device=0, start_s=63.0, end_s=75.0),),
    (Fix("measure what the host does in a dip", "whyidle run -- python train.py", "argument"),),
    ("pause.checkpoint_sync", "pause.evaluation", "input.worker_startup"),
)
ASK = (Unknown("sync.scalar_read", ("sync_site",), "record with ProfilerActivity.CPU as well as CUDA"),)


def of(
    *curves: CurvePicture, kind="nvidia-smi dmon", verdict="", idle=None, findings=(), judged=True, **more
) -> Report:
    """Return a report on these curves."""
    known = [curve for curve in curves if curve.busy_share is not None]
    summary = Summary(
        verdict,
        window_s=1356.0 if idle is not None else None,
        gpu_busy_share=None if idle is None else 1 - idle,
        gpu_idle_share=idle,
        idle_by_cause={"unknown": idle} if idle else {},
        devices=tuple(DeviceBusy(None, c.device, c.busy_share or 0.0, c.window_s, c.node, c.instance) for c in known),
        curve_s=1356.0,
        curve_interval_s=0.3,
        curve_idle_share=idle,
        curve_known_share=1.0,
        **more,
    )
    run = RunInfo((EvidenceFile("gpu.txt", kind, None),), gpus=(GpuCount(A100, len(curves)),), levels=("curve",))
    prediction = Prediction(refused="a curve does not show what a fix would change") if findings else None
    return Report(run, summary, findings, ASK, (), Detail(curves=curves), prediction, judged=judged)


def picture(device=0, busy: float | None = 0.84, points=SAW, node="", instance="") -> CurvePicture:
    means = {"memory_used_bytes": 60e9, "power_w": 312.4, "sm_active_share": 0.31, "utilization_percent": 84.0}
    return CurvePicture("gpu.txt", device, node, instance, 1356.0, 4520, busy, points, means)


@pytest.fixture
def healthy() -> Report:
    told = "Healthy: the GPU was busy 98% of the time (nvidia-smi dmon, 1 GPU, 22.6 min, one sample per 0.3 s)."
    return of(picture(busy=0.98), verdict=told, idle=0.02)


@pytest.fixture
def sawtooth() -> Report:
    told = (
        "Your GPUs were idle 16% of the time (nvidia-smi dmon, 8 GPUs, 22.6 min, one sample per 0.3 s). "
        "A curve shows when, not why: utilization falls to zero about every 75 s."
    )
    return of(*(picture(device) for device in range(8)), verdict=told, idle=0.16, findings=(SAWTOOTH,))


@pytest.fixture
def split() -> Report:
    told = (
        "Cannot judge: the utilization of GPU 0 MIG 1g.10gb 7 is not recorded (nvidia-smi dmon, which counts none for "
        "a GPU that is split (MIG)). Record DCGM's activity counters: `dcgmi dmon -e 203,1001,1002,1004,1005 > "
        "gpu.txt`."
    )
    return of(picture(busy=None, points=(), instance="1g.10gb 7"), verdict=told, judged=False)


@pytest.fixture
def point() -> Report:
    told = (
        "Cannot judge: one moment, not a curve (nvidia-smi: 1 GPU at 0%, up to 20 GiB held). Record the GPU's "
        "utilization for 5 minutes: `nvidia-smi dmon -o DT > gpu.txt`."
    )
    return of(picture(busy=0.0, points=()), verdict=told, judged=False, kind="nvidia-smi")


@pytest.fixture
def lagging() -> Report:
    found = Finding(
        "curve.lagging_gpu",
        "medium",
        0.5,
        "GPU 3 has a lower utilization than its peers, which costs up to 6% of the time.",
        0.06,
        "utilization 51 against 98 of its peers, in 97% of the time",
        candidates=("dist.straggler", "hw.thermal"),
    )
    curves = [
        picture(d, 0.51 if d == 3 else 0.98, tuple(0.51 if d == 3 else 0.98 for _ in range(48))) for d in range(8)
    ]
    told = (
        "Your GPUs were idle 8% of the time (nvidia-smi dmon, 8 GPUs, 22.6 min, one sample per 0.3 s). "
        "A curve shows when, not why."
    )
    return of(*curves, verdict=told, idle=0.08, findings=(found,))


@pytest.fixture
def cluster() -> Report:
    """512 GPUs of 64 hosts; three of them have a picture."""
    rng = np.random.default_rng(7)
    busy = np.clip(0.9 + 0.03 * rng.standard_normal(512), 0, 1)
    busy[77] = 0.4
    ranked = np.argsort(busy)
    shown = {int(ranked[0]), int(ranked[256]), int(ranked[-1])}
    curves = [
        picture(i % 8, float(busy[i]), tuple([float(busy[i])] * 48) if i in shown else (), node=f"node{i // 8:02}")
        for i in range(512)
    ]
    told = (
        "Your GPUs were idle 10% of the time (CloudWatch, 512 GPUs of 64 hosts, 30 days, one sample per minute). "
        "A curve shows when, not why: utilization falls to zero about every 75 s."
    )
    return of(*curves, verdict=told, idle=0.1, findings=(SAWTOOTH,), kind="CloudWatch")


@pytest.fixture
def fused(sawtooth: Report) -> Report:
    """A trace of the same job knows the cause."""
    settled = Finding(
        "input.workers_zero",
        "high",
        0.9,
        "The DataLoader loads in the training process (num_workers=0), which costs 30% of the time.",
        0.3,
        "enumerate(DataLoader) covers 30 of the 31 points of idle time; the curve agrees: utilization falls to zero "
        "about every 75 s",
        (Location("/runs/rank0.json.gz", rank=0, step=7, start_s=0.123, end_s=0.19),),
        (Fix("workers", "DataLoader(..., num_workers=4)", "argument"),),
    )
    summary = replace(
        sawtooth.summary,
        verdict="Your GPU was idle 31% of the time. Over the whole run (nvidia-smi dmon) GPUs were idle 16% of the "
        "time; the traced steps show 31%.",
        window_s=0.88,
        steps=5,
        step_time_s=0.176,
        gpu_busy_share=0.69,
        gpu_idle_share=0.31,
        idle_by_cause={"data_wait": 0.3, "kernel_gap": 0.01},
        devices=(DeviceBusy(0, 0, 0.69, 0.88),),
    )
    files = (EvidenceFile("/runs/rank0.json.gz", "kineto", 0), *sawtooth.run.evidence)
    run = replace(sawtooth.run, evidence=files, levels=("trace", "curve"))
    return replace(sawtooth, run=run, summary=summary, findings=(settled,), prediction=None)


NAMES = ("healthy", "sawtooth", "split", "point", "lagging", "cluster", "fused")


@pytest.mark.parametrize("name", NAMES)
def test_picture_of_curves(name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    text = render(cost.price(request.getfixturevalue(name)), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 40
    assert text == snapshot


@pytest.mark.parametrize("name", ["sawtooth", "split"])
def test_everything_of_curves(name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    text = render(request.getfixturevalue(name), width=80, everything=True)
    assert max(map(len, text.splitlines())) <= 80
    assert text == snapshot


def test_curves_in_ascii(sawtooth: Report, snapshot: SnapshotAssertion) -> None:
    text = render(sawtooth, width=80, unicode=False)
    assert text.isascii()
    assert "?" not in text
    assert text == snapshot


def test_every_gpu_is_in_the_table_and_three_are_drawn(cluster: Report) -> None:
    assert len(re_lines(render(cluster), "▁▂▃▄▅▆▇█")) == 3
    assert len(re_lines(render(cluster, everything=True), "4,520")) == 512


def re_lines(text: str, marks: str) -> list[str]:
    """Return the lines that hold one of these characters, or this text."""
    return [line for line in text.splitlines() if marks in line or (len(marks) == 8 and set(marks) & set(line))]


def test_names_of_hosts_cannot_act_on_a_terminal(sawtooth: Report) -> None:
    evil = tuple(replace(curve, node=f"\x1b[31mn{curve.device}\n") for curve in sawtooth.detail.curves)
    devices = tuple(replace(device, node=f"\x1b[31mn{device.device}\n") for device in sawtooth.summary.devices)
    report = replace(sawtooth, detail=Detail(curves=evil), summary=replace(sawtooth.summary, devices=devices))
    for everything in (False, True):
        assert "\x1b" not in render(report, everything=everything)
        assert "[31m" not in render(report, everything=everything)


@pytest.mark.parametrize(
    ("location", "said"),
    [
        (Location("gpu.txt", device=3, start_s=3.0, end_s=5.5, name="gpu 3"), "gpu.txt GPU 3, at 3.000–5.500 s"),
        (
            Location("gpu.txt", device=3, start_s=600.2, end_s=1200.4, name="gpunode1 gpu 3"),
            "gpunode1 GPU 3, at 600–1200 s",
        ),
        (Location("gpu.txt", device=0, start_s=597.1, name="gpu 0 MIG 1g.10gb 7"), "GPU 0 MIG 1g.10gb 7, from 597 s"),
    ],
)
def test_places_on_a_curve(location: Location, said: str) -> None:
    assert said in place(location)


def test_what_was_not_measured_is_a_gap() -> None:
    assert spark((0.0, None, 1.0), 3) == BLOCKS[0] + GAP + BLOCKS[-1]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=60), st.integers(1, 60))
def test_a_line_of_blocks_is_as_long_as_asked(points: list[float | None], length: int) -> None:
    line = spark(points, length)
    assert len(line) == min(len(points), length)
    assert set(line) <= {*BLOCKS, GAP}


def test_a_log_beside_curves_says_its_steps(sawtooth: Report) -> None:
    summary = replace(sawtooth.summary, steps=4200, step_time_s=0.31, step_time_mean_s=0.32)
    text = render(replace(sawtooth, summary=summary))
    assert "4,200 steps · 310 ms/step" in text
    assert "1 rank" not in text
