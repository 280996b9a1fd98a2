"""Real processes: what a cell starts is gone when the cell has ended, whatever it does against that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("sweeps run on Linux only", allow_module_level=True)

from whyidle.sweep import executor
from whyidle.sweep.executor import Local, Task, watched
from whyidle.sweep.output import MOST_BYTES
from whyidle.sweep.processes import MARK, kill_all, left_behind, members

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""


def until(condition: object) -> None:
    deadline = time.monotonic() + 120
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def task(folder: Path, script: str, **more: object) -> Task:
    return Task((sys.executable, "-c", script), folder, **more)  # type: ignore[arg-type]


def test_a_stubborn_job_and_its_children_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "JOB_GRACE_S", 0.5)
    job = Local().start(task(tmp_path, STUBBORN))
    until(lambda: "ready" in job.tail())
    assert job.ended() is None
    assert len(members(-1, str(tmp_path))) == 3  # whyidle run, the job, and what left its session
    job.end()
    assert not members(-1, str(tmp_path))
    ended = job.ended()
    assert ended is not None
    assert ended.signal == 9
    assert (tmp_path / "output.txt").read_text().startswith("ready\n")
    assert list(tmp_path.glob("node-*/node.json"))  # the recording was finished


def test_a_job_that_ends_by_itself_leaves_nothing(tmp_path: Path) -> None:
    script = "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True); sys.exit(3)"
    job = Local().start(task(tmp_path, script))
    until(lambda: job.ended() is not None)
    ended = job.ended()
    assert ended is not None
    assert ended.exit_code == 3
    assert not members(-1, str(tmp_path))


def test_each_gpu_has_one_job(tmp_path: Path) -> None:
    local = Local(("3", "5"))
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['OMP_NUM_THREADS'])"
    assert local.slots == 2
    jobs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        jobs.append(local.start(task(tmp_path / name, show, environment={"OMP_NUM_THREADS": "1"})))
    for job in jobs:
        until(lambda job=job: job.ended() is not None)
    assert [(tmp_path / name / "output.txt").read_text() for name in ("a", "b")] == ["3 1\n", "5 1\n"]


def test_what_a_job_prints_is_bounded(tmp_path: Path) -> None:
    job = Local().start(task(tmp_path, f"import sys; sys.stdout.write('x' * {MOST_BYTES + 100_000}); print('end')"))
    until(lambda: job.ended() is not None)
    text = (tmp_path / "output.txt").read_bytes()
    assert MOST_BYTES < len(text) < MOST_BYTES + 200_000
    assert text.endswith(b"xend\n")
    assert b"100,004 bytes left out" in text


def test_the_command() -> None:
    command = watched(
        Task(("python3", "a.py"), Path("d"), settings={"loader:num_workers": "4"}, options=("--no-trace",))
    )
    told = "run -o d --quiet --no-verdict --no-trace --set loader:num_workers=4 -- python3 a.py"
    assert command[command.index("run") :] == told.split()


def test_what_a_killed_sweep_left_behind(tmp_path: Path) -> None:
    marked = {**os.environ, MARK: str(tmp_path / "cell-01-x=1")}
    with subprocess.Popen(["sleep", "600"], env=marked) as process:
        until(lambda: left_behind(tmp_path) == {process.pid})
        assert not left_behind(tmp_path / "cell")
        kill_all(lambda: left_behind(tmp_path))
        assert process.wait(10) == -9
    assert not left_behind(tmp_path)


def test_a_cell_whose_sweep_is_gone_does_not_begin(tmp_path: Path) -> None:
    command = watched(Task(("touch", str(tmp_path / "ran")), tmp_path / "cell"))
    command[command.index(str(os.getpid()))] = "1"
    assert subprocess.run(command, check=False).returncode == 143
    assert not (tmp_path / "ran").exists()
