"""The command line with a judge that says what the test wants, and no reader behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers import aws, clients, direct, moto_server, prometheus, prometheus_binary, train
from whyidle import diagnosis
from whyidle.model.finding import EvidenceFile, Finding, Report, RunInfo, Summary

__all__ = ["aws", "clients", "direct", "moto_server", "plain", "prometheus", "prometheus_binary", "train", "verdict"]

Severity = str

REPORT = Report(
    RunInfo((EvidenceFile("trace.json", "kineto", 0),)),
    Summary("Your GPU was idle 44% of the time.", gpu_busy_share=0.56, gpu_idle_share=0.44, idle_by_cause={"gc": 0.44}),
)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the terminal of whoever runs the tests would add."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Report]:
    """Set what the judge says of any path, and stand in a folder with a trace.json."""
    monkeypatch.chdir(tmp_path)
    Path("trace.json").write_text("{}", "utf-8")

    def say(severity: Any = None, *, judged: bool = True) -> Report:
        findings = () if severity is None else (Finding("host.gc_pause", severity, 0.9, "The collector runs.", 0.3),)
        report = replace(REPORT, findings=findings, judged=judged)
        monkeypatch.setattr(diagnosis, "load", lambda paths, progress: paths)
        monkeypatch.setattr(diagnosis, "judge", lambda run, **options: report)
        return report

    return say
