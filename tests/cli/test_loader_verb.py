"""`whyidle loader`: a script from its command line to the report, and what is wrong with others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.cli import main

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "tests" / "capture" / "loader_jobs.py"
SHORT = ("--seconds", "0.1", "--steps", "6", "--workers", "0,1")
linux = pytest.mark.skipif(sys.platform != "linux", reason="whyidle loader measures on Linux only")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Try a job's loader; the last argument says which job."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WHYIDLE")}
    env = {**kept, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    *options, what = arguments
    command = [sys.executable, "-m", "whyidle", "loader", "-o", "out", *options, "--", sys.executable, str(JOBS), what]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def refused(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["loader", *arguments]) == 2
    return capsys.readouterr().err


@linux
def test_from_the_script_to_the_report(here: Path) -> None:
    ran = tried(*SHORT, "--format", "json", "slow")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)  # what the script writes goes to standard error
    assert "[0.0, 1.0, 2.0, 3.0]" in ran.stderr
    assert "whyidle: num_workers=1: " in ran.stderr
    assert [point["workers"] for point in told["points"]] == [0, 1]
    assert told["loader"]["dataset"] == "__main__.Slow"
    assert told["advice"]["speedup_at_most"] > 1.5  # 16 ms of 17 ms or so are loading
    assert told["advice"]["step_now_s"] > 0.016 > told["advice"]["ceiling_s"]
    assert [path.name for path in (here / "out").glob("*/*.loader.json")]
    assert sorted(path.name for path in here.iterdir()) == ["out"]


@linux
def test_the_report_for_a_person_in_a_file(here: Path) -> None:
    ran = tried(*SHORT, "--no-train", "--report", "r.txt", "plain")
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    text = (here / "r.txt").read_text("utf-8")
    assert "the training was not measured" in text
    assert re.search(r"^ +0 .* now$", text, flags=re.MULTILINE)


@linux
@pytest.mark.parametrize(
    ("what", "message", "hint"),
    [
        ("broken", "the script exited with 7 before it iterated a DataLoader", "its own output says why"),
        ("nothing", "the script iterates no DataLoader", "torch.utils.data.DataLoader only"),
        ("evaluated", "none of the script's DataLoaders seems to be the training's", "--loader 0"),
    ],
)
def test_scripts_without_a_loader_to_try(what: str, message: str, hint: str) -> None:
    ran = tried(*SHORT, what)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"whyidle: {message}" in ran.stderr
    assert hint in ran.stderr.rpartition("hint: ")[2]
    assert "Traceback" not in ran.stderr
    if what == "evaluated":
        assert re.search(r"--loader 1  .*loader_jobs\.py:\d+  __main__\.Numbers  \(gradients are off", ran.stderr)


@linux
def test_a_command_that_is_no_python(here: Path) -> None:
    command = [sys.executable, "-m", "whyidle", "loader", "--", "true"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "no process of it that whyidle could watch imported torch" in ran.stderr


@linux
def test_command_lines_that_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert "train.py: no such file" in refused("train.py", capsys=capsys)
    assert "not a list of numbers of workers" in refused("--workers", "a", "train.py", capsys=capsys)
    assert "0 to 1,024" in refused("--workers", "-1", "train.py", capsys=capsys)
    assert "--seconds is 0.1 to 3600" in refused("--seconds", "0", "train.py", capsys=capsys)
    assert "--no-train" in refused("--steps", "0", "train.py", capsys=capsys)
    assert "--loader 0" in refused("--loader", "-1", "train.py", capsys=capsys)
    assert "formats: html, json, markdown, terminal" in refused("--format", "yaml", "train.py", capsys=capsys)
    assert "command not found" in refused("--", "no-such-program", capsys=capsys)
