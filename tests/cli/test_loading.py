"""The progress bar: silent in pipes and for quick loads, and unmoved by what a file is called."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from whyidle.cli import _loading
from whyidle.cli._loading import loading


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nobody_is_told_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with loading() as told:
        assert told is None


def test_a_quick_load_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with loading() as told:
        assert told is not None
        told(Path("a.json"), 1, 2)
    assert stream.getvalue() == ""


def test_a_long_load_shows_which_file(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_loading, "QUIET_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with loading() as told:
        assert told is not None
        told(Path("runs"), 1200, 0)
        told(Path("runs/a.json"), 1, 2)
        told(Path("runs/[bold]\x1b[31mb.json"), 2, 2)
    assert "runs: 1,200 files" in stream.getvalue()
    assert "a.json" in stream.getvalue()
    assert "[bold]b.json" in stream.getvalue()
