"""All processes of one cell, so that ending it ends them: launchers start some in sessions of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from whyidle.collect import procfs

MARK: Final = "WHYIDLE_CELL"  # environment variable that tells whose a process is, wherever it went
POLL_S: Final = 0.05
GIVE_UP_S: Final = 20.0  # on a process that the kernel does not let go of


def members(session: int, mark: str) -> set[int]:
    """Return the living processes of a session, and those that inherited this mark, but for our own."""
    found = set()
    for name in procfs.names("/proc"):
        status = (procfs.text(f"/proc/{name}/stat") or "").rpartition(")")[2].split()
        if len(status) < 4 or status[0] in "ZX":  # dead already
            continue
        if int(status[3]) == session or _marked(name, mark):
            found.add(int(name))
    return found - {os.getpid()}


def left_behind(sweep: Path) -> set[int]:
    """Return the living processes of all cells of a sweep: those of one that was killed may take a while to end."""
    mark = f"{MARK}={sweep.absolute()}/".encode(errors="surrogateescape")
    found = set()
    for name in procfs.names("/proc"):
        if any(variable.startswith(mark) for variable in _environment(name)):
            found.add(int(name))
    return found - {os.getpid()}


def kill_all(find: Callable[[], set[int]]) -> None:
    """Kill what is found until nothing is: a process may start another meanwhile."""
    until = time.monotonic() + GIVE_UP_S
    while (left := find()) and time.monotonic() < until:
        kill(left)
        time.sleep(POLL_S)


def kill(pids: set[int]) -> None:
    """End processes at once."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _marked(pid: str, mark: str) -> bool:
    return f"{MARK}={mark}".encode(errors="surrogateescape") in _environment(pid)


def _environment(pid: str) -> list[bytes]:
    """Return the variables that a process was started with; none of one that is dead already."""
    return (procfs.read(f"/proc/{pid}/environ") or b"").split(b"\0")
