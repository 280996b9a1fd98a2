"""Runs a script until its training's DataLoader was tried, and reads what came of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from whyidle.collect.collector import Collector
from whyidle.collect.machine import Machine, machine
from whyidle.errors import WhyIdleError
from whyidle.launch import folder
from whyidle.launch.folder import Folders
from whyidle.launch.looks import Looks
from whyidle.launch.process import Ended, Mask
from whyidle.launch.program import NotStartedError, Program, find
from whyidle.launch.watched import run_watched
from whyidle.model.loader_trial import LoaderTrial, Tried
from whyidle.read.loader_trial import read_loader_trials
from whyidle.sweep.loader.advice import advise

SAID = {
    "looking": "the script runs up to its training's DataLoader",
    "measuring": "the training waits while its DataLoader is measured alone",
    "training": "the training makes some steps, as it is and without loading; then it is ended",
}
GRACE_S = 10.0  # for a job whose trial is over: ranks that wait for one that ended are then told to end
ANY = "whyidle loader --loader 0 tries the first that is iterated, whatever it is for"


@dataclass(frozen=True, slots=True)
class Asked:
    """How a loader shall be tried."""

    workers: tuple[int, ...] = ()  # empty: 0, 1, 2, 4 and so on up to the CPUs
    seconds: float = 5.0  # for each point
    steps: int = 30  # of the training, as it is and with cached batches; 0: it is not tried
    train_seconds: float = 60.0  # after which fewer steps have to do
    loader: int | None = None  # by order of first iteration; None: the first that seems to be the training's
    cold: bool = False  # take the data set's files out of the page cache once


def counts(cpus: float | None) -> tuple[int, ...]:
    """Return numbers of workers to try: none, and powers of two up to the CPUs, with these."""
    most = max(int(cpus or 1), 1)
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return tuple(sorted({0, *powers, most}))


def cpus_of(told: Machine) -> float | None:
    """Return the CPUs that a job may use."""
    allowed = len(told.cpus_allowed) if told.cpus_allowed else told.cpus
    known = [cpus for cpus in (allowed, told.cpu_quota) if cpus]
    return min(known, default=None)


def tried(
    command: Sequence[str], output: Path | None, asked: Asked, mask: Mask, say: Callable[[str], None] = lambda _: None
) -> Tried:
    """Run a script until its loader was tried, and return that with what follows; see `run`."""
    folders, trial = run(command, output, asked, mask, say)
    here = machine()
    cpus = cpus_of(here)
    place = folders.run.relative_to(Path.cwd()) if folders.run.is_relative_to(Path.cwd()) else folders.run
    return Tried(tuple(command), str(place), trial, advise(trial, cpus), cpus, here.memory_bytes)


def run(
    command: Sequence[str], output: Path | None, asked: Asked, mask: Mask, say: Callable[[str], None]
) -> tuple[Folders, LoaderTrial]:
    """Run a script until its loader was tried.

    Args:
        command: as it is started without whyidle.
        output: folder of the recording; None is a new one in `whyidle-runs`.
        asked: how to try.
        mask: signals that are blocked meanwhile.
        say: is told of each point.

    Raises:
        WhyIdleError: when it cannot be started, or no loader was tried.
    """
    try:
        program = find(command)
        folders = folder.make(output, f"loader-{program.name}", os.environ, datetime.now(UTC).astimezone())
    except NotStartedError as error:
        raise WhyIdleError(error.message, error.hint.replace("whyidle run", "whyidle loader")) from None
    except OSError as error:
        raise WhyIdleError(f"no folder can be written ({error.strerror})", "-o a folder that can") from None
    ended = _run(program, folders, asked, mask, say)
    mask.lift()
    trial = next(iter(read_loader_trials(folders.run, [])), None)
    return folders, _checked(trial, ended)


def _run(program: Program, folders: Folders, asked: Asked, mask: Mask, say: Callable[[str], None]) -> Ended:
    workers = asked.workers or counts(cpus_of(machine()))
    chosen = {
        "workers": list(workers),
        "seconds": asked.seconds,
        "steps": asked.steps,
        "train_seconds": asked.train_seconds,
        "loader": asked.loader,
        "cold": asked.cold,
    }
    looks = Looks(trace=False, syncs=0, loader_trial=chosen)
    follower = _Follower(folders, say)
    about = (len(workers) + 3) * asked.seconds + (asked.steps > 0) * 2 * min(asked.seconds, 10.0)
    say(
        f"num_workers={', '.join(map(str, workers))}: {about:.0f} s or more, once the training's DataLoader is iterated"
    )

    def make(pid: int) -> Collector:
        follower.pid = pid
        return Collector(folders.node, folders.capture, pid, gpus=False, command=program.arguments, cwd=Path.cwd())

    try:
        with _output_on_stderr():
            return run_watched(program, folders, looks, mask, make, follower.look).ended
    except NotStartedError as error:
        folder.remove(folders)
        raise WhyIdleError(error.message, error.hint) from None


class _Follower:
    """Tells how a trial gets on, and ends a job of which one process is done and others wait for that one."""

    def __init__(
        self, folders: Folders, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pid: int | None = None
        self._folders = folders
        self._say = say
        self._clock = clock
        self._told = 0  # points
        self._state = ""
        self._done: float | None = None  # since when

    def look(self) -> None:
        """Tell of what is new; ask the job to end, a while after the trial is over."""
        trial = next(iter(read_loader_trials(self._folders.capture, [])), None)
        if trial is None:
            return
        for point in trial.points[self._told :]:
            pace = "no batch" if point.batches_per_s is None else f"{point.batches_per_s:.3g} batches/s"
            self._say(f"num_workers={point.workers}: {pace}")
        self._told = len(trial.points)
        if trial.state != self._state and trial.state in SAID:
            self._say(SAID[trial.state])
        self._state = trial.state
        if trial.state not in {"done", "failed"}:
            return
        if self._done is None:
            self._done = self._clock()
        elif self.pid is not None and self._clock() - self._done > GRACE_S:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            self._done = self._clock()


@contextlib.contextmanager
def _output_on_stderr() -> Iterator[None]:
    """Let what is started meanwhile write its standard output to standard error: the other is the report's."""
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _checked(trial: LoaderTrial | None, ended: Ended) -> LoaderTrial:
    """Return a trial that measured something; WhyIdleError where there is none."""
    if trial is not None and any(point.batches_per_s for point in trial.points):
        return trial
    if ended.signal == signal.SIGINT:
        raise KeyboardInterrupt
    how = f"exited with {ended.exit_code}" if ended.signal is None else f"was ended by signal {ended.signal}"
    if trial is None:
        raise WhyIdleError(
            f"the script {how}, and no process of it that whyidle could watch imported torch",
            "its own output says why" if ended.status else "is this the command that trains?",
        )
    if trial.state == "failed":
        raise WhyIdleError(f"the loader could not be tried: {trial.why}", "errors.txt in the run directory says more")
    if trial.loader is not None:
        why = next((point.why for point in trial.points if point.why), trial.why)
        raise WhyIdleError(f"the loader gave no batch: {why}", "does the script run without whyidle?")
    if trial.loaders:
        listed = "\n".join(
            f"  --loader {one.loader}  {one.where}  {one.dataset}  ({one.skipped})" for one in trial.loaders
        )
        raise WhyIdleError(f"none of the script's DataLoaders seems to be the training's:\n{listed}", ANY)
    message = (
        f"the script {how} before it iterated a DataLoader" if ended.status else "the script iterates no DataLoader"
    )
    hint = "its own output says why" if ended.status else "whyidle tries torch.utils.data.DataLoader only"
    raise WhyIdleError(message, hint)
