"""Whatever the recording: nothing is called well that is not, and what is said can be true."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.recordings import recordings
from whyidle.judge import judge, unexplained
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.model.finding import MEDIUM
from whyidle.render import render

BUSY = ("compute.", "compile.", "dist.")  # families whose loss is busy time


def run(parts):
    return Run(tuple(part.trace(path=f"r{rank}.json", rank=rank) for rank, part in enumerate(parts)))


@settings(max_examples=80, deadline=None)
@given(st.lists(recordings(), min_size=1, max_size=3))
def test_exit_code_0_means_that_no_idle_time_is_left_unspoken_for(parts):
    report = judge(run(parts))
    if report.exit_code == 0:
        m = measure(run(parts)).measurements
        spoken = sum(finding.lost_share for finding in report.findings if not finding.rule.startswith(BUSY))
        nobodys = m.get("idle_peer_wait_share", 0) + m.get("usual_kernel_gap_share", 0)
        assert report.summary.gpu_idle_share - spoken < MEDIUM + nobodys + 1e-9
        assert sum(unexplained(m, report.findings).values()) < MEDIUM
    elif report.exit_code == 2:
        assert "Cannot judge" in report.summary.verdict or "does not show what to change" in report.summary.verdict


@settings(max_examples=80, deadline=None)
@given(st.lists(recordings(), min_size=1, max_size=3))
def test_what_is_said_can_be_true(parts):
    report = judge(run(parts))
    idle, busy = report.summary.gpu_idle_share, report.summary.gpu_busy_share
    for finding in report.findings:
        assert 0 < finding.confidence <= 1
        family = finding.rule.split(".")[0]
        if finding.rule in {"sync.scalar_read", "host.optimizer_loop", "pause.evaluation"}:
            assert finding.lost_share <= 1, "copies back, and work that need not be, take busy time too"
        elif family in {"input", "sync", "host", "pause", "memory"}:
            assert finding.lost_share <= idle + 1e-6, finding
        elif family in {"compute", "compile", "dist"}:
            assert finding.lost_share <= busy + 1e-6, finding
    if idle is not None and report.summary.idle_by_cause:
        assert abs(sum(report.summary.idle_by_cause.values()) - idle) < 1e-3
    assert report.healthy is (report.healthy and report.exit_code == 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(recordings(), min_size=1, max_size=2))
def test_every_report_can_be_shown(parts):
    report = judge(run(parts))
    for width in (60, 80, 120):
        assert report.summary.verdict.split()[0] in render(report, "terminal", width=width)
    shown = json.loads(render(report, "json"))
    assert shown["schema_version"] == 1
    idle = shown["summary"]["gpu_idle_share"]
    if idle is not None:
        assert abs(sum(shown["summary"]["idle_by_cause"].values()) - idle) < 1e-3
