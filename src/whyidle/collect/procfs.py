"""Reads the small files of /proc, /sys and control groups, which the kernel makes up at each read.

Any may be missing: a process ended, a kernel lacks the file, a container hides it. The answer is None then, or empty.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/linux/proc_ns.h


def read(path: str | Path) -> bytes | None:
    """Return a file's bytes; None if it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):
        return None
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:  # the process ended meanwhile
        return None
    finally:
        os.close(file)


def text(path: str | Path) -> str | None:
    """Return a file's text; None if it cannot be read."""
    data = read(path)
    return None if data is None else data.decode("utf-8", "replace")


def number(path: str | Path) -> int | None:
    """Return the whole number that a file consists of."""
    try:
        return int(read(path) or b"")
    except ValueError:
        return None


def names(folder: str | Path) -> list[str]:
    """Return the numbers that name what is in a folder, processes or threads, as text; empty if it cannot be read."""
    try:
        return [name for name in os.listdir(folder) if name.isdecimal()]  # noqa: PTH208  names, not paths
    except OSError:
        return []


def fields(path: str | Path) -> dict[str, int]:
    """Return a file of lines like `name value` or `name: value kB` as numbers; lines of other kinds are left out."""
    found = {}
    for line in (text(path) or "").splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].lstrip("-").isdecimal():
            found[words[0].rstrip(":")] = int(words[1])
    return found


def cpu_list(line: str) -> list[int] | None:
    """Return the CPUs of a kernel's list like `0-3,8`; None if it is none."""
    cpus: list[int] = []
    try:
        for part in filter(None, line.strip().split(",")):
            first, _, last = part.partition("-")
            cpus.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        return None
    return cpus


def allowed_cpus(root: Path, pid: int | str) -> list[int] | None:
    """Return the CPUs on which a process may run, by its affinity."""
    for line in (text(f"{root}/proc/{pid}/status") or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return cpu_list(line.partition(":")[2])
    return None


def command(root: Path, pid: int | str) -> tuple[str, ...]:
    """Return the command line of a process; empty where it is hidden or the process is gone."""
    data = read(f"{root}/proc/{pid}/cmdline") or b""
    return tuple(part.decode("utf-8", "replace") for part in data.rstrip(b"\0").split(b"\0")) if data else ()


def environment(root: Path, pid: int | str) -> dict[str, str] | None:
    """Return the environment with which a process was started; None where it must not be read."""
    data = read(f"{root}/proc/{pid}/environ")
    if data is None:
        return None
    pairs = (part.decode("utf-8", "replace").partition("=") for part in data.split(b"\0") if part)
    return {name: value for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/PID/mountinfo (proc(5)): where what part of a file system of what type is mounted."""

    shown: str
    point: str
    kind: str
    options: tuple[str, ...]


def mounts(root: Path, pid: int | str = "self") -> list[Mount]:
    """Return what a process has mounted, in the order in which it came; empty if that is hidden."""
    found = []
    for line in (read(f"{root}/proc/{pid}/mountinfo") or b"").decode("utf-8", "surrogateescape").split("\n"):
        before, _, after = line.partition(" - ")
        mount, kind = before.split(" "), after.split(" ")
        if len(mount) >= 5 and kind[0]:
            shown, point = (re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path) for path in mount[3:5])
            found.append(Mount(shown, point, kind[0], tuple(kind[-1].split(","))))
    return found


def own_pid_namespace(root: Path) -> bool | None:
    """Return whether this container counts process ids apart from the machine; None if that is hidden."""
    try:
        return str((root / "proc/self/ns/pid").readlink()) != INITIAL_PID_NAMESPACE
    except OSError:
        return None
