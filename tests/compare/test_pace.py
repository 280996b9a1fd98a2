"""The steps of a run, whatever recorded them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from whyidle.compare.pace import Pace, pace_of
from whyidle.judge import measured_of
from whyidle.model.evidence import Curve, Run, Series
from whyidle.read import load

RUNS = Path(__file__).parents[1] / "runs"


def found(path: Path) -> Pace | None:
    run = load(path)
    return pace_of(run, measured_of(run))


def test_a_watched_job_tells_of_every_step() -> None:
    pace = found(RUNS / "watched" / "loader-workers-0")
    assert pace is not None
    assert (pace.source, pace.per, pace.dropped) == ("Optimizer.step", "step", 10)
    assert len(pace.steady) == len(pace.seconds) - 10
    assert np.median(pace.steady) == pytest.approx(0.05, abs=0.01)
    assert pace.number is not None
    assert len(pace.number) == len(pace.seconds)
    assert (np.diff(pace.number) >= 1).all()


def test_what_a_trainer_printed(tmp_path: Path) -> None:
    lines = [f"step={k} loss=2.1 step_time={0.3 + 0.01 * (k % 3)} data_time=0.021" for k in range(1, 41)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n", "utf-8")
    pace = found(tmp_path)
    assert pace is not None
    assert (pace.source, pace.per, len(pace.seconds)) == ("trainer log", "step", 40)
    assert (pace.span, pace.interval) == ((1, 40), 1)


def test_a_trainer_that_prints_every_tenth_step_of_each_epoch(tmp_path: Path) -> None:
    rows = ({"step": step, "step_time": 0.3} for _ in range(2) for step in range(10, 201, 10))
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pace = found(tmp_path)
    assert pace is not None
    assert (pace.span, pace.interval, pace.dropped) == ((1, 400), 10, 1)  # a line holds all ten steps of the warm-up


def test_a_rate_is_turned_into_a_time() -> None:
    rate = Series("tokens_per_s", "", np.arange(40) * 10**9, np.full(40, 5000.0))
    run = Run(curves=(Curve("train.log", "trainer log", (rate,), step_log=True),))
    pace = pace_of(run, measured_of(run))
    assert pace is not None
    assert pace.per == "token"
    assert pace.steady == pytest.approx(np.full(32, 1 / 5000))


def test_utilization_alone_tells_of_no_steps(tmp_path: Path) -> None:
    rows = [f"2026/01/05 10:{k // 60:02}:{k % 60:02}.000, 0, {40 + k % 7} %" for k in range(300)]
    (tmp_path / "gpu.csv").write_text("\n".join(["timestamp, index, utilization.gpu [%]", *rows]) + "\n", "utf-8")
    assert found(tmp_path) is None


def test_a_real_trace_tells_of_its_profiler_steps(corpus: Path) -> None:
    folder = corpus / "kineto" / "resnet50_num_workers_0"
    pace = found(next(folder.glob("worker0.16*.json.gz")))
    assert pace is not None
    assert (pace.source, len(pace.seconds), pace.dropped) == ("ProfilerStep", 6, 1)
    assert np.median(pace.steady) == pytest.approx(0.17647, abs=1e-4)
    assert pace.span == (5, 10)  # as the profiler numbers them
