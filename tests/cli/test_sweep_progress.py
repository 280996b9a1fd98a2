"""What a sweep says while it runs, where there is no terminal."""

from __future__ import annotations

import pytest

from whyidle.cli._sweep_progress import Progress
from whyidle.sweep.plan import Limits


def test_how_far_a_cell_is_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    progress = Progress(Limits(), 3, is_quiet=False, now_s=lambda: now[0])
    with progress:
        progress.begins({"x": "2"})
        for now[0] in (30.0, 90.0, 100.0):
            progress.seen({"x": "2"}, 12_000, 0.023)
    lines = capsys.readouterr().err.replace("+-", "±").splitlines()
    assert lines == [
        "running x=2, 1 of 3 jobs at most: until its mean step is known to 2%, 600 s at most",
        "running x=2: 12,000 steps, ±2.3% of 2%, 600 s at most (--settle 5% ends sooner)",
    ]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Limits(), 1, is_quiet=True)
    with progress:
        progress.begins({"x": "2"})
        progress.seen({"x": "2"}, 100, None)
    assert capsys.readouterr().err == ""
