"""Whose price counts: that of the command line, else that of the project, else the list's; and who is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whyidle import diagnosis
from whyidle.cli import main
from whyidle.cli._numbers import priced
from whyidle.errors import WhyIdleError
from whyidle.model.finding import Report
from whyidle.watch.screen import total


def project(value: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.whyidle]\nusd-per-gpu-hour = {value}\n", "utf-8")


def test_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert priced(None)[0] is None
    project("2.60")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert priced(None) == (2.60, "pyproject.toml")
    assert priced(1.0) == (1.0, "your price")


def test_a_price_given_needs_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    project("-1")
    assert priced(1.0) == (1.0, "your price")
    with pytest.raises(WhyIdleError, match="usd-per-gpu-hour is US dollars, 0 or more"):
        priced(None)


def test_diagnose_takes_it(verdict: Callable[..., Report], capsys: pytest.CaptureFixture[str]) -> None:
    verdict("high")
    project("2.60")
    assert main(["trace.json", "--format", "json"]) == 1
    cost = json.loads(capsys.readouterr().out)["summary"]["cost"]
    assert (cost["usd_per_gpu_hour"], cost["price_source"]) == (2.60, "pyproject.toml")
    assert main(["trace.json"]) == 1
    assert "(1 GPU at $2.60, pyproject.toml)" in capsys.readouterr().out
    assert main(["trace.json", "--price", "3", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["summary"]["cost"]["price_source"] == "your price"
    project("'a lot'")
    assert main(["trace.json"]) == 2
    assert "and not 'a lot'" in capsys.readouterr().err


def test_run_takes_it_before_the_job_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    asked: list[Any] = []
    monkeypatch.setattr("whyidle.cli._watching.watch", lambda what, mask: asked.append(what) or 0)
    project("2.60")
    assert main(["run", "--", "python", "train.py"]) == 0
    assert asked[0].show.judging["price"] == 2.60
    assert asked[0].show.judging["price_source"] == "pyproject.toml"
    project("-1")
    assert main(["run", "--", "python", "train.py"]) == 2
    assert len(asked) == 1


def test_the_watch_says_whose_price_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    project("2.60")
    asked: list[Any] = []
    monkeypatch.setattr("whyidle.watch.loop.watch", lambda what, look: asked.append(what) or 0)
    assert main(["watch", "--once"]) == 0
    assert main(["watch", "--once", "--price", "3"]) == 0
    assert [(what.price, what.price_file) for what in asked] == [(2.60, "pyproject.toml"), (3.0, "")]
    assert "price" not in total([], 10.0, "pyproject.toml")  # of nothing


def test_the_call_of_a_notebook_takes_what_it_is_given(verdict: Callable[..., Report]) -> None:
    verdict("high")
    project("2.60")
    cost = diagnosis.diagnose("trace.json").summary.cost
    assert cost is None
