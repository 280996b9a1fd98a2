"""`whyidle sweep`: real jobs of a second each, and what is wrong with a command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from whyidle.cli import main
from whyidle.sweep.strategies import Machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="whyidle sweep runs jobs on Linux only")

DEADLINE_S = 300.0

# A loader that waits for its samples, as for a store far away: workers wait at the same time, so that two are twice
# as fast. It leaves a process behind in a session of its own, as launchers do.
TRAIN = """
import argparse, subprocess, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
options = parser.parse_args()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
if options.num_workers == 7:
    raise ValueError("no more than 6")
class Samples(Dataset):
    def __len__(self):
        return 4 * options.steps
    def __getitem__(self, index):
        time.sleep(0.008)
        return torch.zeros(8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in DataLoader(Samples(), 4, num_workers=options.num_workers):
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN, "utf-8")
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "whyidle", "sweep", *arguments]


def whyidle(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, timeout=DEADLINE_S, **options
    )


def alive(folder: Path) -> list[str]:
    """Return the processes of a sweep's cells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"WHYIDLE_CELL={folder.absolute()}".encode() in path.read_bytes():
                found.append((path.parent / "stat").read_text().split()[2])
        except OSError:
            continue
    return [state for state in found if state not in "ZX"]


def until(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.1)


def test_interrupted_resumed_and_the_right_value(here: Path) -> None:
    """Ctrl-C in the second cell, then the rest: 0, 1 and 2 workers, of which 2 hide half of the wait that 1 has."""
    pytest.importorskip("torch")
    job = ("-o", "out", "-p", "num_workers=0,1,2,7", "--", sys.executable, "train.py")
    with subprocess.Popen(command(*job), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        until(lambda: list(here.glob("out/cell-02-*/node-*/node.json")))
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=DEADLINE_S)
    assert first.returncode == 130
    assert "whyidle: 1 cell done and kept in out\nhint: to go on: whyidle sweep --resume out\n" in said
    assert not alive(here / "out")
    done = Path("out/cell-01-num_workers=0/cell.json").stat().st_mtime_ns

    again = whyidle("--resume", "out", "--format", "json")
    assert again.returncode == 0, again.stderr
    report = json.loads(again.stdout)
    assert json.loads(Path("out/report.json").read_text()) == report
    assert Path("out/cell-01-num_workers=0/cell.json").stat().st_mtime_ns == done
    assert Path("out/cell-02-num_workers=1.partial-1").is_dir()
    assert not alive(here / "out")
    assert [(cell["params"]["num_workers"], cell["status"]) for cell in report["cells"]] == [
        ("0", "ok"), ("1", "ok"), ("2", "ok"), ("7", "failed"),
    ]  # fmt: skip
    assert report["cells"][3]["why"] == "exit code 1: ValueError: no more than 6"
    assert report["recommended"] == {"num_workers": "2"}
    for cell in report["cells"][:3]:
        known = {
            "step_time_s",
            "step_time_mean_s",
            "throughput",
            "data_wait_share",
            "peak_host_memory_bytes",
            "fetch_s",
        }
        assert all(cell[name] is not None for name in known), cell
        assert cell["throughput_unit"] == "samples"
        assert cell["steps"] > 20

    table = whyidle("--resume", "out")
    assert table.returncode == 0
    assert table.stderr == ""
    assert table.stdout.startswith("  Take num_workers=2: it is the fastest")


def test_it_leaves_nothing_behind_when_it_is_killed(here: Path) -> None:
    (here / "wait.py").write_text("import time\ntime.sleep(600)\n", "utf-8")
    with subprocess.Popen(command("-o", "out", "-q", "-p", "x=1", "--", sys.executable, "wait.py", "{x}")) as sweep:
        until(lambda: list(here.glob("out/cell-01-*/node-*/node.json")))
        sweep.kill()
    until(lambda: not alive(here / "out"))


def test_a_dry_run_runs_nothing(here: Path) -> None:
    ran = whyidle("--dry-run", "--price", "2", "-p", "num_workers=0,4", "--", "python3", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert "python3 train.py --num-workers 4" in ran.stdout
    assert "2 jobs at most" in ran.stdout
    assert "$0.67 at most" in ran.stdout
    ran = whyidle(
        "--dry-run", "--format", "json", "--gpus", "0,1", "-p", "num_workers=0,4", "--", "python3", "train.py"
    )
    told = json.loads(ran.stdout)
    assert [cell["params"] for cell in told["cells"]] == [{"num_workers": "0"}, {"num_workers": "4"}]
    assert told["cells"][1]["command"].startswith("CUDA_VISIBLE_DEVICES=1 whyidle run ")
    assert (told["most_jobs"], told["most_usd"]) == (2, None)
    assert not list(here.glob("whyidle-sweeps"))


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["-p", "num_workers"], "--num-workers 0"),  # what it does without -p
        (["--strategy", "workers"], "--num-workers 0"),
        (["-p", "batch-size"], "--set loader:batch_size=8"),
        (["--strategy", "batch"], "--set loader:batch_size=8"),
    ],
)
def test_a_search_chooses_the_values(
    arguments: list[str], first: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyidle.cli._sweeping.this_machine", lambda: Machine(cpus=2))
    assert main(["sweep", "--dry-run", *arguments, "--", "python3", "train.py"]) == 0
    out = capsys.readouterr().out
    assert out.count("whyidle run") == 1
    assert first in out
    assert "which comes next depends on what this one gives" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", "python3", "train.py"], "nothing to vary"),
        (["-p", "lr", "--", "python3", "train.py"], "lr has no values to try"),
        (["-p", "num_workers=", "--", "python3", "train.py"], "a value is missing"),
        (["-p", "num_workers=0,4"], "a sweep of what?"),
        (["-p", "num_workers=0,4", "--", "no-such-program"], "no-such-program: command not found"),
        (["-p", "num_workers=0,4", "--strategy", "luck", "--", "python3", "train.py"], "no strategy is called 'luck'"),
        (["-p", "num_workers=0,4", "--settle", "0", "--", "python3", "train.py"], "--settle is"),
        (["-p", "num_workers=0,4", "--max-cost", "1", "--", "python3", "train.py"], "--max-cost needs to know"),
        (["-p", "num_workers=0,4", "--price", "2", "--", "python3", "train.py"], "and nobody to ask"),
        (["-p", "num_workers=0,4", "--max-cells", "0", "--", "python3", "train.py"], "--max-cells is more than 0"),
        (["-p", "num_workers=0,4", "--repeats", "0", "--", "python3", "train.py"], "--repeats is 1 or more"),
        (["-p", "num_workers=0,4", "--gpus", "0,0", "--", "python3", "train.py"], "--gpus names each GPU once"),
        (["-p", "num_workers=0,4", "-o", "train.py", "--", "python3", "train.py"], "train.py is a file"),
        (["-p", "num_workers=0,4", "--format", "xml", "--", "python3", "train.py"], "no format is called 'xml'"),
        (["--resume", "nowhere"], "no such folder: nowhere"),
        (["--resume", "."], "holds other things, and no sweep"),
        (["--resume", ".", "--", "python3", "train.py"], "--resume takes the command"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *arguments]) == 2
    said = capsys.readouterr().err
    assert not Path("whyidle-sweeps").exists()
    assert message in said
    assert "hint: " in said


def test_another_command_in_the_same_folder_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "-o", "out", "-p", "x=1", "--", "true", "{x}"]) == 2  # no cell gave a number
    assert capsys.readouterr().out.startswith("  Nothing to recommend: no cell gave a throughput.")
    assert main(["sweep", "-o", "out", "-p", "x=1", "--", "false", "{x}"]) == 2
    assert "another command: true {x}" in capsys.readouterr().err
    assert main(["sweep", "-o", "out", "-p", "x=1", "--cell-time", "5m", "--", "true", "{x}"]) == 2
    assert "another --cell-time" in capsys.readouterr().err
    assert main(["sweep", "--resume", "out", "--strategy", "workers"]) == 2
    assert "--resume goes on with the strategy of the folder" in capsys.readouterr().err
    assert main(["sweep", "-o", "out", "-p", "x=2", "--", "true", "{x}"]) == 2
    assert sorted(path.name for path in here.glob("out/cell-*")) == ["cell-01-x=1", "cell-02-x=2"]


def test_a_budget_stays_with_the_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "-o", "out", "-p", "x=1,2", "--max-cells", "1", "--", "true", "{x}"]) == 2
    first = capsys.readouterr()
    assert "    2  not run: --max-cells 1 is reached\n" in first.out
    assert main(["sweep", "--resume", "out"]) == 2
    assert capsys.readouterr().out == first.out
    assert main(["sweep", "--resume", "out", "--max-cells", "2"]) == 2
    assert "not run" not in capsys.readouterr().out
    assert sorted(path.name for path in here.glob("out/cell-*")) == ["cell-01-x=1", "cell-02-x=2"]


def test_a_limit_is_consent(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--price", "2", "--max-cost", "1", "-p", "x=1", "--", "true", "{x}"]) == 2
    said = capsys.readouterr()
    assert "nobody to ask" not in said.err
    assert said.out.startswith("  Nothing to recommend: no cell gave a throughput.")


def test_the_price_of_the_project_counts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "pyproject.toml").write_text("[tool.whyidle]\nusd-per-gpu-hour = 6.0\n", "utf-8")
    assert main(["sweep", "--dry-run", "-p", "x=1,2", "--", "true", "{x}"]) == 0
    assert "$2.00 at most" in capsys.readouterr().out


def test_elsewhere_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(["sweep", "-p", "x=1", "--", "true"]) == 2
    assert "on Linux only" in capsys.readouterr().err
