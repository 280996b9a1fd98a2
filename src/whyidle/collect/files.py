"""The files that a process has open: on which file systems they are, and which of them it moves through.

Read from /proc/PID/fd, fdinfo and mountinfo; what is another user's stays hidden, and is empty then.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from whyidle.collect import procfs
from whyidle.collect.procfs import Mount

MOST = 1024  # descriptors of a process that are looked at


class Descriptor(NamedTuple):
    """An open file: its path as the process sees it, and its position (None: it has none)."""

    path: str
    position: int | None


def descriptors(root: Path, pid: int) -> dict[int, Descriptor] | None:
    """Return what a process has open, by number; None where that is hidden or the process is gone."""
    folder = root / f"proc/{pid}/fd"
    try:
        numbers = sorted(int(name) for name in os.listdir(folder) if name.isdecimal())[:MOST]  # noqa: PTH208  names
    except OSError:
        return None
    found = {}
    for number in numbers:
        try:
            path = os.readlink(folder / str(number))  # noqa: PTH115  what it points to need not be a path
        except OSError:  # closed meanwhile
            continue
        position = None
        if path.startswith("/"):
            position = procfs.fields(root / f"proc/{pid}/fdinfo/{number}").get("pos")
        found[number] = Descriptor(path, position)
    return found


def file_system(path: str, mounts: list[Mount]) -> str:
    """Return the type of the file system that holds a path; "pipe" or "socket" for what is none, "" if not known."""
    if not path.startswith("/"):
        return path.partition(":")[0] if ":[" in path or path.startswith("anon_inode") else ""
    holding = [mount for mount in mounts if _holds(mount.point, path)]
    return max(enumerate(holding), key=lambda item: (len(item[1].point), item[0]))[1].kind if holding else ""


def _holds(point: str, path: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def target(root: Path, pid: int, number: int) -> str | None:
    """Return what a descriptor of a process is open on; None if it is closed, or hidden."""
    try:
        return os.readlink(root / f"proc/{pid}/fd/{number}")  # noqa: PTH115  what it points to need not be a path
    except OSError:
        return None
