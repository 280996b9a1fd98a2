"""What a person reads of a sweep."""

from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell, Params, Status, Sweep
from whyidle.render.base import Look
from whyidle.render.sweep import cell_line, sweep_json, sweep_text

GIB = 1 << 30


def cell(params: Params, step_s: float, noise: float = 0.01, base_s: float = 0.176, **more: object) -> Cell:
    def about(value: float) -> Interval:
        return Interval(value * (1 - noise), value, value * (1 + noise))

    known = {
        "runs": 1, "steps": 120, "settled": True, "seconds": 40.0,
        "step_time_s": step_s, "step_time_mean_s": about(step_s),
        "throughput": about(32 / step_s), "throughput_unit": "samples", "data_wait_share": 0.34, "gpu_idle_share": 0.44,
        "peak_memory_bytes": 9 * GIB, "memory_bytes": 32 * GIB, "peak_host_memory_bytes": 3 * GIB, "usd": 0.03,
        "usd_per_million": 3.97 * step_s / 0.176, "speedup": about(base_s / step_s), "folder": "cell-01",
    }  # fmt: skip
    return Cell(params, "ok", **{**known, **more})


def without(params: Params, status: Status, why: str) -> Cell:
    return Cell(params, status, why=why, seconds=3.0)


SWEEP = Sweep(
    command=("python", "train.py"),
    strategy="grid",
    cells=(
        cell({"num_workers": "0"}, 0.176),
        cell({"num_workers": "4"}, 0.117, data_wait_share=0.01, gpu_idle_share=0.1),
        cell({"num_workers": "8"}, 0.1165, 0.08, settled=False, data_wait_share=0.0, gpu_idle_share=0.1),
        without({"num_workers": "16"}, "out of memory", "RuntimeError: DataLoader worker (pid 4) is killed by signal."),
        without({"num_workers": "32"}, "not run", "--max-cost $0.10 is used up"),
    ),
    recommended={"num_workers": "4"},
    why="num_workers=4 is as fast as num_workers=8 to within 0.4%, for less; num_workers=0 is 34% slower.",
    take="python train.py --num-workers 4",
    proof="whyidle compare whyidle-sweeps/train-20260101-120000/cell-01 whyidle-sweeps/train-20260101-120000/cell-01",
    stopped="--max-cost $0.10 is used up",
    folder="whyidle-sweeps/train-20260101-120000",
    usd=0.1,
    usd_per_gpu_hour=2.6,
    price_source="your price",
    gpus=1,
    applied={"num_workers": "as --num-workers, which train.py knows"},
    warnings=("1 of 4 cells ended before the step time was settled: see the intervals.",),
)  # fmt: skip
TWO = Sweep(
    command=("python", "train.py"),
    strategy="grid",
    cells=tuple(
        cell(
            {"num_workers": workers, "batch_size": batch}, step, gpu_idle_share=None, peak_memory_bytes=None,
            usd_per_million=None, usd=None,
        )
        for workers, batch, step in (("0", "32", 0.2), ("0", "64", 0.35), ("4", "32", 0.1), ("4", "64", 0.15))
    ),
    recommended={"num_workers": "4", "batch_size": "64"},
    why="num_workers=4 batch_size=64 is the fastest.",
    folder="out",
)  # fmt: skip


@pytest.mark.parametrize("look", [Look(width=120), Look(width=80, unicode=False)], ids=["wide", "plain"])
@pytest.mark.parametrize("sweep", [SWEEP, TWO], ids=["one", "two"])
def test_screen(sweep: Sweep, look: Look, snapshot: SnapshotAssertion) -> None:
    text = sweep_text(sweep, look)
    assert text == snapshot
    to_paste = ("  set: ", "  prove it: ")  # are not wrapped
    assert all(len(line) <= look.width for line in text.splitlines() if not line.startswith(to_paste))
    assert look.unicode or text.isascii()


def test_lines(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(cell_line(one, Look()) for one in SWEEP.cells) == snapshot


def test_nothing_measured() -> None:
    none = Sweep(("true",), "grid", (without({"x": "1"}, "failed", "exit code 1"),), why="Nothing to recommend: no.")
    assert sweep_text(none, Look()).startswith("  Nothing to recommend: no.\n\n    x\n    1  failed: exit code 1\n")


def test_what_a_job_says_cannot_act_on_the_terminal() -> None:
    evil = Sweep(("true",), "grid", (without({"x\x1b[31m": "\x1b[2J1"}, "failed", "\x1b]0;owned\x07no\nway"),))
    assert "\x1b" not in sweep_text(evil, Look()) + cell_line(evil.cells[0], Look())


def test_json() -> None:
    told = json.loads(sweep_json(SWEEP))
    assert told["schema_version"] == 1
    assert told["recommended"] == {"num_workers": "4"}
    assert told["cells"][0]["params"] == {"num_workers": "0"}
    assert told["cells"][0]["throughput"]["likely"] == pytest.approx(181.818)
    assert told["cells"][3]["throughput"] is None
