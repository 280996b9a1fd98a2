"""Run directories to cells: every field, from where it is read; and what several runs of a cell give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded import BEGAN, GPU_OF_MACHINE, MS, Machine, Process
from whyidle.model.trial import Cell
from whyidle.sweep.budget import Rate
from whyidle.sweep.cell import Trial, cells, trial
from whyidle.sweep.folder import Outcome
from whyidle.sweep.recorded import recorded

GIB = 1 << 30
RATE = Rate(3.6, "your price", 2)  # 0.2 cents per second for both GPUs


def run(
    path: Path, *, step_ms: float = 100.0, steps: int = 100, samples: int = 32, tokens: int = 0, **more: object
) -> Path:
    """Write a run directory: steps that wait 40% of their time for data, and what is counted beside them."""
    process = Process().setting("device", "cuda:0")
    process.loaders = [
        {"loader": 0, "num_workers": 2, "batch_size": samples, "prefetch_factor": 2, "where": "train.py:9"}
    ]
    for worker in (0, 1):
        process.workers[0, worker] = {
            "fetches": 50, "fetch_s": {"sum": 5.0, "sum_of_squares": 0.52, "max": 0.2}, "cpu_s": 4.0, "run_delay_s": 0.5
        }  # fmt: skip
    process.count(7, 40 * GIB)
    process.train(
        steps, data=step_ms * 0.4, prepare=0, forward=step_ms * 0.2, backward=step_ms * 0.2, optimizer=step_ms * 0.1,
        other=step_ms * 0.1, samples=samples, tokens=tokens, workers=True,
    )  # fmt: skip
    moments = [BEGAN + second * 1000 * MS for second in range(1, 10)]
    csv = {
        "gpu.csv": (
            ["time_ns", "gpu", "utilization_percent", "memory_used_bytes", "processes_of_job"],
            [(moment, 0, 75, 50 * GIB, 1) for moment in moments],
        ),
        "processes.csv": (
            ["time_ns", "pid", "parent_pid", "role", "cpu_s", "memory_bytes"],
            [
                (moment, pid, 1, role, second * 0.5, GIB * size)
                for second, moment in enumerate(moments)
                for pid, role, size in ((4000, "rank", 4), (4001, "worker", 2), (4002, "worker", 1))
            ],
        ),
    }
    Machine(processes=[process], gpus=[dict(GPU_OF_MACHINE)], csv=csv, **more).write(path)  # type: ignore[arg-type]
    return path


def of(path: Path, **outcome: object) -> Trial:
    told = Outcome(
        **{"params": {"x": path.name}, "status": "ok", "seconds": 50.0, "settled": True, "gpus": 2} | outcome
    )  # type: ignore[arg-type]
    return trial(path.name, told, recorded(path))


def test_a_look_at_a_cell_that_runs_reads_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run(tmp_path / "a")
    whole = recorded(path)
    monkeypatch.setattr("whyidle.read._read", None)
    looked = recorded(path, traces=False)
    assert whole is not None
    assert looked is not None
    assert list(looked.steady) == list(whole.steady)


def test_every_field(tmp_path: Path) -> None:
    (cell,) = cells([of(run(tmp_path / "a"))], RATE)
    assert cell.steps == 89  # of 99, the first began before it was seen; ten are the warm-up
    assert cell.step_time_s == pytest.approx(0.1)
    assert cell.step_time_mean_s is not None
    assert cell.step_time_mean_s.likely == pytest.approx(0.1)
    assert cell.throughput is not None
    assert (cell.throughput.likely, cell.throughput_unit) == (pytest.approx(320, rel=1e-3), "samples")
    assert cell.data_wait_share == pytest.approx(0.4, abs=0.01)
    assert cell.gpu_idle_share == pytest.approx(0.25)
    assert cell.peak_memory_bytes == 40 * GIB  # PyTorch's own, before what NVML saw
    assert cell.memory_bytes == 80 * GIB
    assert cell.peak_host_memory_bytes == 7 * GIB
    assert cell.cpu_busy_share == pytest.approx(1.5 / 8, rel=0.1)
    assert cell.fetch_s == pytest.approx(0.1)
    assert cell.fetch_cv == pytest.approx(0.2)
    assert cell.fetch_cpu_s == pytest.approx(0.08)
    assert cell.io_wait_share == pytest.approx(0.1)
    assert cell.usd == pytest.approx(0.1)
    assert cell.usd_per_million == pytest.approx(1e6 * 0.002 / 320, rel=1e-3)
    assert cell.speedup is not None
    assert cell.speedup.likely == pytest.approx(1.0)
    assert cell.settled


def test_batches_of_other_sizes_are_compared_by_samples(tmp_path: Path) -> None:
    small, large = cells([of(run(tmp_path / "32")), of(run(tmp_path / "64", step_ms=150, samples=64))], RATE)
    assert small.throughput_unit == large.throughput_unit == "samples"
    assert large.speedup is not None
    assert large.speedup.likely == pytest.approx(2 / 1.5, rel=1e-3)


def test_one_unit_for_all(tmp_path: Path) -> None:
    """Where one cell does not tell its samples, all are in steps, and none has a price for them."""
    both = cells([of(run(tmp_path / "a")), of(run(tmp_path / "b", samples=0))], RATE)
    assert {cell.throughput_unit for cell in both} == {"steps"}
    assert [cell.usd_per_million for cell in both] == [None, None]


def test_repeats_are_pooled(tmp_path: Path) -> None:
    first, second = of(run(tmp_path / "a")), of(run(tmp_path / "b", step_ms=110), params={"x": "a"}, repeat=2)
    (cell,) = cells([first, second], RATE)
    assert (cell.steps, cell.seconds, cell.folder) == (178, 100.0, "a")
    assert cell.usd == pytest.approx(0.2)
    mean = cell.step_time_mean_s
    assert mean is not None
    assert mean.likely == pytest.approx(0.105)
    assert mean.high - mean.low > 0.01  # two runs that differ by 10% say little, however even their steps


def test_a_cell_without_a_run(tmp_path: Path) -> None:
    lost = Outcome({"x": "1"}, status="failed", why="exit code 1", seconds=2.0)
    done = of(run(tmp_path / "a"))
    bad, good = cells([trial("gone", lost, recorded(tmp_path / "gone")), done], Rate())
    assert bad == Cell({"x": "1"}, "failed", "gone", "exit code 1", seconds=2.0, throughput_unit="samples")
    assert good.speedup is not None  # beside the first that worked
    assert good.usd is None
    assert good.usd_per_million is None


def test_one_repeat_that_fails_does_not_spoil_the_cell(tmp_path: Path) -> None:
    lost = Outcome({"x": "a"}, repeat=2, status="out of memory", seconds=2.0)
    (cell,) = cells([of(run(tmp_path / "a")), trial("gone", lost, None)], RATE)
    assert (cell.status, cell.steps) == ("ok", 89)
    assert cell.seconds == 52.0
