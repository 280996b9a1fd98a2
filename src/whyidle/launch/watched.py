"""One job from start to end, with recording around it: the only thing that is changed is three variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from whyidle.launch.folder import Folders
from whyidle.launch.looks import Looks
from whyidle.launch.process import Ended, Mask, start, wait
from whyidle.launch.program import Program
from whyidle.launch.recording import Collector, Recording

CAPTURE = Path(__file__).parents[1] / "capture"


@dataclass(frozen=True, slots=True)
class Watched:
    """How a job ended, and what went wrong with watching it."""

    ended: Ended
    failures: int = 0  # of the collector
    errors: tuple[str, ...] = ()  # tracebacks of the first ones
    hung: bool = False  # the collector was still busy when it was no longer waited for


def environment(base: Mapping[str, str], capture: Path, looks: Looks) -> dict[str, str]:
    """Return the variables of a job that is watched.

    Args:
        base: its variables when it is not.
        capture: folder in which its processes write.
        looks: at what.
    """
    inherited = base.get("PYTHONPATH", "")
    injected = str(CAPTURE)
    if inherited.split(os.pathsep)[0] != injected:
        injected = os.pathsep.join(filter(None, (injected, inherited)))
    return {**base, "PYTHONPATH": injected, "WHYIDLE_CAPTURE": str(capture), "WHYIDLE_OPTIONS": looks.json()}


def run_watched(
    program: Program,
    folders: Folders,
    looks: Looks,
    mask: Mask,
    make: Callable[[int], Collector],
    each: Callable[[], None] = lambda: None,
) -> Watched:
    """Run a job and record it.

    Args:
        program: what to start.
        folders: where the recording lies.
        looks: what to look at inside the job.
        mask: what is blocked while it runs.
        make: makes the collector for a process id.
        each: called after every tick of the collector, and once more in the end.

    Raises:
        NotStartedError: when the system does not execute the program.
    """
    pid = start(program, environment(os.environ, folders.capture, looks), mask)
    recording = Recording(lambda: make(pid), each)
    try:
        recording.start()
    except RuntimeError as error:  # no thread to be had: a limit of processes
        return Watched(wait(pid, mask), 1, (f"RuntimeError: {error}\n",))
    ended = wait(pid, mask)
    told = recording.end(ended)
    return Watched(ended, recording.failures, tuple(recording.errors), hung=not told)


def run_bare(program: Program, mask: Mask) -> Ended:
    """Run a job that cannot be recorded.

    Raises:
        NotStartedError: when the system does not execute the program.
    """
    return wait(start(program, os.environ, mask), mask)
