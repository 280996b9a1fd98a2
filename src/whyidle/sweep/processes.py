"""All processes of one cell, so that ending it ends them: launchers start some in sessions of their own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from whyidle.collect import procfs

MARK: Final = "WHYIDLE_CELL"  # environment variable that tells whose a process is, wherever it went
_ROOT: Final = Path("/")


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


def kill(pids: set[int]) -> None:
    """End processes at once."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _marked(pid: str, mark: str) -> bool:
    data = procfs.read(f"/proc/{pid}/environ") or b""
    return f"{MARK}={mark}".encode(errors="surrogateescape") in data.split(b"\0")
