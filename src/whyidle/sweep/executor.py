"""Starts a cell's job and ends it with everything that it started. Another way to run jobs is another Executor."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from whyidle.launch.process import Ended
from whyidle.sweep.folder import OUTPUT
from whyidle.sweep.output import Output
from whyidle.sweep.processes import MARK, kill, kill_all, members

JOB_GRACE_S: Final = 10.0  # from SIGTERM to SIGKILL of the job
RUN_GRACE_S: Final = 30.0  # that `whyidle run` has to finish its recording after that
ABANDON_S: Final = 5.0  # for the last words in a pipe that a process beyond our reach may hold


@dataclass(frozen=True, slots=True)
class Task:
    """A job to be watched, and where."""

    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # beside what we have
    settings: Mapping[str, str] = field(default_factory=dict)  # for `whyidle run --set`
    options: tuple[str, ...] = ()  # further ones of `whyidle run`


class Running(Protocol):
    """A job that was started."""

    def ended(self) -> Ended | None:
        """Return how it ended; None while it runs."""

    def ask_to_end(self) -> None:
        """Ask it to end, once; who asks several does not wait for each."""

    def end(self) -> None:
        """End it and every process that it started; returns when they are gone."""

    def tail(self) -> str:
        """Return the end of what it printed."""


class Executor(Protocol):
    """What runs jobs."""

    slots: int  # jobs that may run at a time

    def start(self, task: Task) -> Running:
        """Start a job."""


class Local:
    """Runs jobs on this machine, each in a session of its own.

    Args:
        gpus: a job at a time on each of these, by CUDA_VISIBLE_DEVICES; empty: one at a time, on what there is.
    """

    def __init__(self, gpus: Sequence[str] = ()) -> None:
        self.slots = max(len(gpus), 1)
        self._free = list(gpus)

    def start(self, task: Task) -> Running:
        """Start a job on the first GPU that is free."""
        environment = {**os.environ, **task.environment, MARK: str(task.folder.absolute())}
        gpu = self._free.pop(0) if self._free else None
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        return _LocalJob(watched(task), environment, task.folder, lambda: self._free.append(gpu) if gpu else None)


def watched(task: Task) -> list[str]:
    """Return the command that records a job. -P: what lies in the user's folder is not imported for our own."""
    settings = [word for name, value in task.settings.items() for word in ("--set", f"{name}={value}")]
    whyidle = [
        sys.executable,
        "-P",
        "-m",
        "whyidle.sweep.child",
        str(os.getpid()),
        "run",
        "-o",
        str(task.folder),
        "--quiet",
        "--no-verdict",
    ]
    return [*whyidle, *task.options, *settings, "--", *task.command]


class _LocalJob:
    """A child process and what came of it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, over: Callable[[], None]
    ) -> None:
        self._mark = environment[MARK]
        self._over: Callable[[], None] | None = over
        self._asked = False
        self._process = subprocess.Popen(  # noqa: S603 - the command that the user gave, and no shell
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(environment), start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._output = Output(self._process.stdout, folder / OUTPUT)
        self._output.start()

    def ended(self) -> Ended | None:
        code = self._process.poll()
        if code is None:
            return None
        self._leave_nothing()
        return Ended(signal=-code) if code < 0 else Ended(exit_code=code)

    def ask_to_end(self) -> None:
        """Ask `whyidle run`, which passes it on to the job and then finishes its recording."""
        if not self._asked and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._asked = True

    def end(self) -> None:
        """Ask the job to end, then insist."""
        try:
            self.ask_to_end()
            self._wait(JOB_GRACE_S)
            if self._process.poll() is None:
                kill(self._members() - {self._process.pid})
                self._wait(RUN_GRACE_S)
        finally:  # however impatient somebody is, nothing stays behind
            self._leave_nothing()

    def tail(self) -> str:
        return self._output.tail()

    def _members(self) -> set[int]:
        return members(self._process.pid, self._mark)

    def _wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _leave_nothing(self) -> None:
        """Kill what is left of the cell."""
        if self._over is None:
            return
        kill_all(self._members)
        self._wait(ABANDON_S)  # until it is no zombie
        self._output.join(ABANDON_S)
        self._over()
        self._over = None
