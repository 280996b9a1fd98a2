"""Runs a script until its training's DataLoader was tried, and reads what came of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from whyidle.collect.collector import Collector
from whyidle.errors import WhyIdleError
from whyidle.launch import folder
from whyidle.launch.folder import Folders
from whyidle.launch.looks import Looks
from whyidle.launch.process import Ended, Mask
from whyidle.launch.program import NotStartedError, Program, find
from whyidle.launch.watched import run_watched
from whyidle.model.loader_trial import LoaderTrial, Tried
from whyidle.read.loader_trial import read_loader_trials
from whyidle.render.words import duration
from whyidle.sweep.here import this_machine
from whyidle.sweep.loader.advice import advise

SAID = {
    "looking": "the script runs up to its training's DataLoader",
    "measuring": "the training waits while its DataLoader is measured alone",
    "training": "the training makes some steps, as it is and without loading; then it is ended",
}
PATIENCE_S = 30.0  # after which a script that comes to no loader is told of; then after twice that, and so on
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


def tried(
    command: Sequence[str], output: Path | None, asked: Asked, mask: Mask, say: Callable[[str], None] = lambda _: None
) -> tuple[Tried, int]:
    """Run a script until its loader was tried, and return that with what follows, and the exit code; see `run`."""
    folders, trial, ended = run(command, output, asked, mask, say)
    here = this_machine()
    place = folders.run.relative_to(Path.cwd()) if folders.run.is_relative_to(Path.cwd()) else folders.run
    told = Tried(tuple(command), str(place), trial, advise(trial, here.cpus), here.cpus, here.memory_bytes)
    # A job whose trial is over may have been ended by us; before, somebody stopped it.
    return told, ended.status if ended.signal is not None and trial.state not in {"done", "failed"} else 0


def run(
    command: Sequence[str], output: Path | None, asked: Asked, mask: Mask, say: Callable[[str], None]
) -> tuple[Folders, LoaderTrial, Ended]:
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
    for marker in folders.run.rglob("loader.cached"):  # by which the ranks of a job ended together
        marker.unlink(missing_ok=True)
    trial = next(iter(read_loader_trials(folders.run, [])), None)
    return folders, _checked(trial, ended, program, asked.loader), ended


def _run(program: Program, folders: Folders, asked: Asked, mask: Mask, say: Callable[[str], None]) -> Ended:
    workers = asked.workers or counts(this_machine().cpus)
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
        self._began = clock()
        self._patience = PATIENCE_S
        self._done: float | None = None  # since when

    def _wait(self, trial: LoaderTrial | None) -> None:
        """Tell of a script that has not come to the loader yet, ever more seldom."""
        waited = self._clock() - self._began
        if waited < self._patience:
            return
        self._patience *= 2
        if trial is None:
            what = "it has not imported torch"
        elif trial.loaders:
            what = "only " + ", ".join(f"{one.loader} ({one.where}: {one.skipped})" for one in trial.loaders)
        else:
            what = "no DataLoader was iterated"
        self._say(f"after {duration(waited)} the script still runs: {what}")

    def look(self) -> None:
        """Tell of what is new; ask the job to end, a while after the trial is over."""
        trial = next(iter(read_loader_trials(self._folders.capture, [])), None)
        if trial is None or trial.state == "looking":
            self._wait(trial)
        if trial is None:
            return
        if trial.state == "measuring" != self._state:
            self._say(SAID["measuring"])
        for point in trial.points[self._told :]:
            pace = "no batch" if point.batches_per_s is None else f"{point.batches_per_s:.3g} batches/s"
            self._say(f"num_workers={point.workers}: {pace}")
        self._told = len(trial.points)
        if trial.state != self._state and trial.state in {"looking", "training"}:
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


def _checked(trial: LoaderTrial | None, ended: Ended, program: Program, asked: int | None) -> LoaderTrial:
    """Return a trial that measured something; WhyIdleError where there is none."""
    if trial is not None and any(point.batches_per_s for point in trial.points):
        return trial
    if ended.signal == signal.SIGINT:
        raise KeyboardInterrupt
    how = f"exited with {ended.exit_code}" if ended.signal is None else f"was ended by signal {ended.signal}"
    said = "its own output says why"
    if trial is None:
        if ended.status and _has_no_torch(program):
            raise WhyIdleError(f"{program.path} has no torch", "whyidle loader -- /path/to/python train.py")
        raise WhyIdleError(
            f"the script {how}, and no process of it that whyidle could watch imported torch",
            said if ended.status else "is this the command that trains?",
        )
    if trial.state == "failed":
        raise WhyIdleError(f"the loader could not be tried: {trial.why}", "errors.txt in the run directory says more")
    if trial.loader is not None:
        why = next((point.why for point in trial.points if point.why), trial.why)
        raise WhyIdleError(f"the loader gave no batch: {why}", "does the script run without whyidle?")
    if trial.loaders:
        raise _none_taken(trial, asked)
    message = (
        f"the script {how} before it iterated a DataLoader" if ended.status else "the script iterates no DataLoader"
    )
    raise WhyIdleError(message, said if ended.status else "whyidle tries torch.utils.data.DataLoader only")


def _none_taken(trial: LoaderTrial, asked: int | None) -> WhyIdleError:
    """Return what is wrong with a script whose loaders are not what was asked for."""
    if asked is not None:
        there = ", ".join(f"{one.loader} ({one.where})" for one in trial.loaders)
        count = "one" if len(trial.loaders) == 1 else f"{len(trial.loaders)}"
        return WhyIdleError(f"there is no loader {asked} ({trial.why}); the script has {count}: {there}")
    listed = "\n".join(f"  --loader {one.loader}  {one.where}  {one.dataset}  ({one.skipped})" for one in trial.loaders)
    return WhyIdleError(f"none of the script's DataLoaders seems to be the training's:\n{listed}", ANY)


def _has_no_torch(program: Program) -> bool:
    """Return whether a job was started with a Python in which there is no torch."""
    if not Path(program.arguments[0]).name.startswith("python"):
        return False
    look = "import importlib.util, sys; sys.exit(3 if importlib.util.find_spec('torch') is None else 0)"
    try:
        ran = subprocess.run([program.path, "-c", look], capture_output=True, check=False, timeout=10)  # noqa: S603
        return ran.returncode == 3
    except (OSError, subprocess.TimeoutExpired):
        return False
