"""Jobs under `whyidle run`, each in a process group of its own as a shell would start it, and the same jobs bare."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
DEADLINE_S = 300.0  # for a job that hangs to be a failure, not a wait; busy machines are ten times as slow

# `whyidle run` measures jobs on Linux only: elsewhere these modules cannot even be imported.
collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]


def environment(**changes: str) -> dict[str, str]:
    """Return variables in which both our own Python and that of the job find whyidle's sources."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WHYIDLE_", "SLURM_"))}
    return {**kept, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", **changes}


@dataclass(frozen=True)
class Ran:
    """What a command returned and wrote, and what `whyidle run` left behind."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def node(self) -> Path:
        (node,) = self.folder.glob("node-*")
        return node

    @property
    def ours(self) -> str:
        """Return our own lines on standard error."""
        return "".join(line for line in self.err.splitlines(True) if line.startswith(("whyidle: ", "hint: ")))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


class Running:
    """A command in its own process group, whose end can be waited for."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.folder = cwd / "run"
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=env, process_group=0
        )

    def line(self) -> str:
        """Wait for a line of output and return it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def to_group(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def to_us(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> Ran:
        try:
            out, err = self.process.communicate(timeout=DEADLINE_S)
        finally:
            self.kill()
        return Ran(self.process.returncode, out, err, self.folder)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command; under `whyidle run` unless bare."""
    running: list[Running] = []

    def start_one(
        *command: str, bare: bool = False, options: Sequence[str] = ("-o", "run"), env: Mapping[str, str] | None = None
    ) -> Running:
        ours = [] if bare else [sys.executable, "-m", "whyidle", "run", *options, "--"]
        started = Running([*ours, *command], tmp_path, env or environment())
        running.append(started)
        return started

    yield start_one
    for one in running:
        one.kill()
        one.process.communicate()
