"""Jobs that `whyidle watch --pid` looks at, each in a session of its own, so that its workers end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TRAINING = Path(__file__).with_name("training.py")
PATIENCE_S = 240.0  # for PyTorch to be imported on a busy machine


@dataclass(frozen=True)
class Job:
    """A training that runs."""

    pid: int
    folder: Path

    @property
    def steps(self) -> int:
        """Return how many steps it has done."""
        return int((self.folder / "steps").read_text())

    def status(self, name: str) -> str:
        """Return a line of what the kernel says of it: TracerPid, State."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


@contextlib.contextmanager
def training(kind: str, folder: Path, group: Path | None = None) -> Iterator[Job]:
    """Run a training until the test has seen enough of it.

    Args:
        kind: what holds it up, as jobs/training.py knows it.
        folder: for its files.
        group: the control group to put it into.
    """
    if kind == "storage":
        os.mkfifo(folder / "slow")
    with (folder / "errors").open("wb") as errors, slow_pipe(folder / "slow"):
        process = subprocess.Popen(
            [sys.executable, str(TRAINING), kind, str(folder)], stdout=errors, stderr=errors, start_new_session=True
        )
        try:
            wait_for(folder / "ready", process)
            if group is not None:
                (group / "cgroup.procs").write_text(str(process.pid))
            yield Job(process.pid, folder)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(ready: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not ready.exists():
        assert process.poll() is None, (ready.parent / "errors").read_text()
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


@contextlib.contextmanager
def slow_pipe(path: Path) -> Iterator[None]:
    """Let a pipe give 64 bytes 20 times a second: slow storage. No disk can be made slow without rights."""
    if not path.exists():
        yield
        return
    over = threading.Event()
    pipe = os.open(path, os.O_RDWR)

    def fill() -> None:
        while not over.wait(0.05):
            os.write(pipe, bytes(64))

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        os.close(pipe)


@contextlib.contextmanager
def quota(cpus: float) -> Iterator[Path | None]:
    """Make a control group that may use so many CPUs; None where none can be made."""
    name, period = f"whyidle-test-{os.getpid()}", 100_000
    versions = (
        ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": f"{period}", "cpu.cfs_quota_us": f"{round(cpus * period)}"}),
        ("/sys/fs/cgroup", {"cpu.max": f"{round(cpus * period)} {period}"}),
    )
    for parent, settings in versions:
        group = Path(parent, name)
        try:
            group.mkdir()
            for file, value in settings.items():
                (group / file).write_text(value)
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield group
        finally:
            _remove(group)
        return
    yield None


def _remove(group: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            group.rmdir()
        except OSError:  # its processes are being ended
            time.sleep(0.05)
        else:
            return
