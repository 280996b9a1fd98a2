"""`whyidle.watch_training()`: the same recording for code that starts it itself, where no prefix can be put before.

The process that trains records itself; the counters are taken beside it by `whyidle.launch.beside`, a process of its
own, which ends with this one.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whyidle.collect import procfs
from whyidle.collect.processes import parse_stat
from whyidle.errors import WhyIdleError
from whyidle.launch import folder
from whyidle.launch.folder import Folders
from whyidle.launch.looks import Looks
from whyidle.launch.watched import CAPTURE

LAST_WORDS_S = 20.0  # for the process beside: a file system that hangs does not hold the job


class Watching:
    """A recording that is under way, or over."""

    def __init__(self, folders: Folders, looks: Looks, *, beside: bool) -> None:
        self.path = folders.run
        self._capture = folders.capture
        self._boot = _boot()
        self._boot.start(str(folders.capture), asdict(looks))
        self._beside = _start_beside(folders) if beside else None

    def stop(self) -> None:
        """Record nothing more. Doing so twice does nothing."""
        if self._boot is None:
            return
        self._boot.stop()
        self._boot = None
        if self._beside is not None:
            assert self._beside.stdin is not None
            self._beside.stdin.close()  # which is what it waits for
            try:
                self._beside.wait(LAST_WORDS_S)
            except subprocess.TimeoutExpired:
                self._beside.kill()
            if self._beside.returncode == 0:  # what the ring held is drained; it stays where a process is killed
                for ring in self._capture.glob(f"{os.getpid()}-*.ring"):
                    ring.unlink(missing_ok=True)

    def end(self, *, verdict: bool) -> None:
        """Stop, and have the machine's first rank write the verdict to standard error, if it is wanted.

        Whatever goes wrong here, the training that was watched goes on, or ends as it was about to.
        """
        try:
            self.stop()
            text = self._told() if verdict and os.environ.get("LOCAL_RANK", "0") == "0" else ""
        except Exception as error:  # noqa: BLE001 - a mistake of ours does not change how the job ends
            text = f"whyidle: no verdict, by a mistake of ours: {type(error).__name__}: {error}\n"
        with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it any more
            sys.stderr.write(text)

    def _told(self) -> str:
        diagnosis = importlib.import_module("whyidle.diagnosis")
        render = importlib.import_module("whyidle.render")
        try:
            text = str(render.render(diagnosis.diagnose(self.path)))
        except WhyIdleError as error:
            text = f"whyidle: no verdict: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else "")
        return f"{text}evidence: {self.path}\n"


def start_watching(
    output: str | Path | None = None, *, trace: bool = True, workers: bool = False, losses: bool = False
) -> Watching | None:
    """Begin to record this process; what `watch_training` does at its start. Returns None where `whyidle run` does.

    Raises:
        WhyIdleError: when the folder holds a recording of this machine already, or cannot be written.
    """
    if os.environ.get("WHYIDLE_CAPTURE"):
        return None
    if sys.platform != "linux":
        raise WhyIdleError("watch_training() measures jobs on Linux only", "leave it out elsewhere")
    local_rank = os.environ.get("LOCAL_RANK")
    folders = _shared(output, local_rank) if local_rank is not None else _own(output)
    return Watching(folders, Looks(trace=trace, workers=workers, losses=losses), beside=local_rank in (None, "0"))


@contextmanager
def watch_training(
    output: str | Path | None = None,
    *,
    trace: bool = True,
    workers: bool = False,
    losses: bool = False,
    verdict: bool = True,
) -> Iterator[Watching | None]:
    """Record the training in this block, and say on standard error why the GPU idles in it.

        with whyidle.watch_training():
            train()

    Under a launcher every rank enters the block; the ranks of a machine share a folder. Under `whyidle run`, which
    records already, it does nothing.

    Args:
        output: folder for the evidence; None makes one in `whyidle-runs`.
        trace: record a few steps with torch.profiler.
        workers: look at what the DataLoader's workers do; only of loaders whose workers are forked.
        losses: record the loss of each step, which `whyidle compare` needs to say whether two runs learn the same.
        verdict: say it at the end, on the machine's first rank.

    Raises:
        WhyIdleError: when the folder holds a recording of this machine already, or cannot be written.
    """
    watching = start_watching(output, trace=trace, workers=workers, losses=losses)
    try:
        yield watching
    finally:
        if watching is not None:
            watching.end(verdict=verdict)


def _boot() -> Any:
    """Return the module that records; it finds the rest of its package by itself."""
    sys.path.insert(0, str(CAPTURE))
    try:
        return importlib.import_module("_whyidle.boot")
    finally:
        sys.path.remove(str(CAPTURE))


def _own(output: str | Path | None) -> Folders:
    """Return new folders for a process that has no peers."""
    try:
        return folder.make(None if output is None else Path(output), _name(), os.environ, _now())
    except OSError as error:
        raise WhyIdleError(f"no folder can be written: {error.strerror}", "watch_training(output=FOLDER)") from None


def _shared(output: str | Path | None, local_rank: str) -> Folders:
    """Return folders that all ranks of a machine come to by themselves: those of one launcher have one parent."""
    run = Path(output) if output is not None else Path(folder.HOME) / f"{_name()}-{_launcher()}"
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    if restart.isdecimal() and int(restart):  # by the same launcher, which must not fail for us
        run = run.with_name(f"{run.name}-restart-{int(restart)}")
    try:
        folders = folder.join(run, os.environ)
    except OSError as error:
        raise WhyIdleError(f"cannot write to {run}: {error.strerror}", "watch_training(output=FOLDER)") from None
    if local_rank == "0" and (folders.node / "node.json").exists():
        raise WhyIdleError(f"{run} holds a recording of this machine already", "watch_training(output=FOLDER)")
    return folders


def _launcher() -> str:
    """Return what tells our parent from all others: in a container its process id is the same in every job."""
    pid = os.getppid()
    stat = parse_stat(procfs.read(f"/proc/{pid}/stat") or b"", delays=False)
    return f"{pid}-{stat.started}" if stat else str(pid)


def _start_beside(folders: Folders) -> subprocess.Popen[bytes] | None:
    """Start what takes the counters; None where there is room for no more processes: the job goes on without."""
    # under a launcher the job is more than this process: the ranks are children of one parent
    root = os.getppid() if "LOCAL_RANK" in os.environ else os.getpid()
    told = json.dumps(
        {"node": str(folders.node), "capture": str(folders.capture), "root": root, "command": sys.orig_argv}
    )
    try:
        return subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
            [sys.executable, "-m", "whyidle.launch.beside", told],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the job; this one ends after it
        )
    except OSError:
        return None


def _name() -> str:
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else "python"


def _now() -> datetime:
    return datetime.now(UTC).astimezone()
