"""What is said while a script runs up to its loader, and of one that comes to none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.sweep.loader.trials import loader
from whyidle.errors import WhyIdleError
from whyidle.launch.folder import Folders
from whyidle.launch.process import Ended
from whyidle.launch.program import Program
from whyidle.model.loader_trial import LoaderTrial
from whyidle.sweep.loader import job

PYTHON = Program(sys.executable, ("python", "train.py"))


def test_one_who_waits_is_told_ever_more_seldom(tmp_path: Path) -> None:
    said: list[str] = []
    now = [0.0]
    follower = job._Follower(Folders(tmp_path, tmp_path, tmp_path), said.append, lambda: now[0])
    for second in range(0, 300, 10):
        now[0] = float(second)
        follower.look()
    waited = (30, 60, 120, 240)
    assert said == [f"after {seconds} s the script still runs: it has not imported torch" for seconds in waited]


def test_a_loader_that_was_asked_for_and_is_not_there() -> None:
    seen = LoaderTrial("ended", why="the script ended by itself", loaders=(loader(loader=0, where="train.py:3"),))
    with pytest.raises(WhyIdleError) as caught:
        job._checked(seen, Ended(0), PYTHON, 5)
    assert caught.value.message == (
        "there is no loader 5 (the script ended by itself); the script has one: 0 (train.py:3)"
    )


@pytest.mark.parametrize(
    ("has_none", "hint"), [(True, "whyidle loader -- /path/to/python train.py"), (False, "its own")]
)
def test_a_python_without_torch(has_none: bool, hint: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {3 if has_none else 0}\n")
    python.chmod(0o755)
    with pytest.raises(WhyIdleError) as caught:
        job._checked(None, Ended(1), Program(str(python), ("python", "train.py")), None)
    assert hint in caught.value.hint
    assert ("has no torch" in caught.value.message) == has_none
