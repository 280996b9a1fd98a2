"""A job that was watched and traced: the log prices its loader, the trace the rest, and both meet."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.test_watched import job, with_trace
from whyidle import diagnose
from whyidle.model.finding import Report

TRACE = next((Path(__file__).parents[1] / "runs" / "scalar_read").iterdir())


@pytest.fixture
def report(tmp_path: Path) -> Report:
    content = json.loads(gzip.decompress(TRACE.read_bytes()))
    return diagnose(with_trace(job(tmp_path, data=40, idle=40), content), price=2.0)


def test_both_price_what_they_know(report: Report) -> None:
    worth = {finding.rule: finding.fixes[0].predicted for finding in report.findings}
    data, read = worth["input.workers_zero"], worth["sync.scalar_read"]
    assert data is not None
    assert read is not None
    assert data.step_time_mean_s.likely == pytest.approx(0.061, rel=0.02)  # 60 ms of its own, and a batch received
    # the replayed steps get 21% shorter by it, which is 21% of the 60 ms of the run's steps that are their own
    assert read.step_time_mean_s.likely == pytest.approx(0.040 + 0.060 * 0.79, rel=0.02)
    assert report.prediction is not None
    assert report.prediction.step_time_s == pytest.approx(0.1, rel=0.01)


def test_together_the_loader_is_played_with_the_shorter_step(report: Report) -> None:
    assert report.prediction is not None
    assert [one.rule for one in report.prediction.sequence] == ["input.workers_zero", "sync.scalar_read"]
    joint = report.prediction.joint
    assert joint is not None
    assert joint.step_time_mean_s.likely == pytest.approx(0.001 + 0.060 * 0.79, rel=0.03)
    assert joint.step_time_mean_s.low < joint.step_time_mean_s.likely < joint.step_time_mean_s.high
    assert joint.usd_per_hour_saved == pytest.approx(2.0 * (1 - joint.step_time_mean_s.likely / 0.1), rel=0.02)
