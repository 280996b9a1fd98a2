"""Reports and pictures that a page has to bear: with every part, with hostile text in all of them, very large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from whyidle.model.detail import Bucket, Copies, CurvePicture, Detail, Roofline, TopItem
from whyidle.model.evidence import Ignored
from whyidle.model.finding import (
    Applied,
    Asked,
    Cost,
    DeviceBusy,
    Ended,
    Estimate,
    EvidenceFile,
    Finding,
    Fix,
    GpuCount,
    Location,
    Patch,
    Predicted,
    Prediction,
    Report,
    RunInfo,
    Summary,
    Unknown,
)
from whyidle.model.picture import Chart, Lane, Line, Mark, Picture, Timeline

T = TypeVar("T")

SECONDS = Estimate(0.08, 0.1, 0.12)
WORTH = Predicted(SECONDS, SECONDS, Estimate(1.4, 1.5, 1.6), "step", "replay", ("a prior",), 0.1, 3.5)


def finding(rule: str = "input.workers_zero", **given: Any) -> Finding:
    """Return a finding with every field filled."""
    told = {
        "seen": "34 of the 44 idle points",
        "locations": (
            Location("runs/trace.json.gz", rank=0, device=0, step=7, start_s=0.1, end_s=0.2, name="in a step"),
            Location("train.py", 41, 20, "        running += loss.item()"),
        ),
        "fixes": (Fix("load in workers", "num_workers=4", "argument", 0.9, "memory", (), WORTH, Patch(True, "order")),),
        "candidates": ("sync.scalar_read",),
        "evidence": "confirmed",
    }
    return Finding(rule, "high", 0.9, "The DataLoader loads in the training process.", 0.34, **(told | given))


def full() -> Report:
    """Return a report that has something in every field."""
    return Report(
        RunInfo(
            (EvidenceFile("runs/trace.json.gz", "kineto", 0), EvidenceFile("runs/log", "whyidle run", 0)),
            (Ignored("runs/notes.txt", "no evidence"),),
            (GpuCount("NVIDIA A100", 8),),
            8,
            {"num_workers": 0, "model": "resnet50"},
            Ended(1, None),
            ("trace", "step log"),
        ),
        Summary(
            "Your GPU was idle 44% of the time. It waits.",
            window_s=1.0,
            steps=6,
            steps_from="ProfilerStep",
            step_time_s=0.15,
            step_time_mean_s=0.17,
            gpu_busy_share=0.56,
            gpu_idle_share=0.44,
            mfu=0.3,
            mfu_peak="312 TFLOP/s",
            idle_by_cause={"data_wait": 0.34, "dispatch": 0.1},
            devices=(DeviceBusy(0, 0, 0.56, 1.0, "node1", "1g"), DeviceBusy(1, 0, 0.6, 1.0, "node2")),
            cost=Cost(2.6, "list price", 8, 9.1, 24.0, 499.0, 219.0),
            host_shares={"data": 0.4, "forward": 0.6},
            own_code_place="between two batches",
        ),
        (finding(), finding("host.launch_bound", evidence="run")),
        (Unknown("hw.power_cap", ("power_w",), "run the job under `whyidle run --workers`"),),
        ("the clock of `rank 0` is off", "two traces of one rank"),
        Detail(
            (TopItem("void at::native::elementwise_kernel<128, 4>(int)", 100, 0.2, 0.4), TopItem("gemm", 9, 0.1, 0.2)),
            (TopItem("aten::add_", 100, 0.2, 0.4),),
            (Copies("HtoD", False, 12, 10**8, 0.1, 0.1, 1e9),),
            (Bucket(0.0, 5e-6, 1000, 0.01), Bucket(5e-6, None, 10, 0.3)),
            (Roofline("aten::mm", "tf32", 10, 0.1, 1e12, 1e9, 0.7, "compute"),),
            (CurvePicture("gpu.txt", 0, "node1", "", 60.0, 60, 0.5, (0.5, None), {"power_w": 300.0}),),
        ),
        Prediction(
            source="replay of steps 2-6 of rank 0",
            steps=(2, 3),
            ranks=(0,),
            local=True,
            step_time_s=0.15,
            step_time_mean_s=0.17,
            identity_error=0.01,
            queue=1024,
            sequence=(Applied("input.workers_zero", "load in workers", WORTH, 0.3, "host.launch_bound"),),
            joint=WORTH,
            critical_path={"data wait": 0.4},
            unpriced={"host.launch_bound": "its kernels are not known"},
            asked=(Asked(("input.workers_zero",), WORTH), Asked(("host.gc_pause",), None, "nothing was lost")),
        ),
        cleared=(finding("sync.scalar_read", evidence="cleared"),),
        picture=picture(200),
    )


def picture(slices: int, names: int = 30, seed: int = 1) -> Picture:
    """Return a picture of so many random slices, which hardly compress."""
    draws = np.random.default_rng(seed)
    each = max(slices // 4, 1)
    lanes = tuple(_lane(kind, each, names, draws) for kind in ("step", "idle", "stream", "thread"))
    told = (*("data_wait", "dispatch"), *(f"void kernel_{number}<float, {number}>(int)" for number in range(names)))
    x = np.arange(60.0)
    chart = Chart(
        "GPU utilization",
        "%",
        "s",
        x,
        (Line("GPU 0", draws.random(60), low=x, high=x),),
        (Mark("step", "step 1", 0.0, 1.0),),
        "curves",
        "start of the recording",
        "means",
        100.0,
    )
    return Picture(
        (Timeline("rank 0", "runs/trace.json.gz", 0, 0, int(lanes[0].end.max()), told, lanes, "short"),), (chart,)
    )


def _lane(kind: Any, slices: int, names: int, draws: np.random.Generator) -> Lane:
    start = np.sort(draws.integers(0, 3_600_000_000_000, slices))  # an hour, to the nanosecond
    return Lane(
        f"{kind} 7",
        kind,
        start,
        start + draws.integers(1, 10**7, slices),
        draws.integers(0, names + 2, slices).astype(np.int32),
        draws.integers(0, 8, slices).astype(np.uint8),
        slices * 2,
        draws.random(2048).astype(np.float32),
    )


# Words that the code decides by: another one there is no other text, but a mistake.
CHOSEN = {"severity", "effort", "evidence", "kind", "bound", "per", "levels", "axis"}


def retold(value: T, text: Callable[[str], str], name: str = "") -> T:
    """Return a report with another text in every place where a file, a job or a user puts one."""
    made: Any = value
    if isinstance(value, str):
        made = value if name in CHOSEN else text(value)
    elif isinstance(value, tuple):
        made = tuple(retold(item, text, name) for item in value)
    elif isinstance(value, Mapping) and name not in {"idle_by_cause", "host_shares"}:
        made = {text(key): retold(item, text) for key, item in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        whole = isinstance(value, Copies | EvidenceFile)  # whose kind is any text
        made = replace(
            value,
            **{f.name: retold(getattr(value, f.name), text, "" if whole else f.name) for f in fields(value)},
        )
    return made
