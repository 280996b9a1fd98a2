"""Whose processes hold a GPU: grouped to jobs by what Linux lets everybody, or the same user, read.

A Slurm job, a pod or a container is one job; else a session is, as a shell or a launcher opened it. Whatever cannot be
read is left out: a job is then its process's number.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from whyidle.collect import procfs

RENEW_S = 10.0  # between two looks at a process that is known
SLURM = re.compile(r"/job_(\d+)")
POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
CONTAINER = re.compile(r"(?:docker|containerd|crio|libpod|lxc)\S*?[-/:]([0-9a-f]{12})[0-9a-f]{52}")
INTERPRETER = re.compile(r"^(?:python|pypy)[\d.]*$")


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a GPU.

    Attributes:
        started: ticks since boot: tells it from another that got its number.
        name: of its program: the script of a Python.
        label: "slurm 4711", "pod …", "container …"; empty for none.
    """

    pid: int
    started: int = 0
    session: int = 0
    name: str = ""
    user: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Processes that belong together.

    Attributes:
        name: of the first.
        others: names of the others, where they differ.
    """

    key: str
    pids: tuple[int, ...]
    name: str = ""
    user: str = ""
    label: str = ""
    others: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """Return it for a person: "PID 17 and 7 more, train.py, alice, slurm 4711"."""
        more = f" and {len(self.pids) - 1} more" if len(self.pids) > 1 else ""
        return ", ".join(filter(None, (f"PID {self.pids[0]}{more}", self.name, self.user, self.label)))

    def matches(self, patterns: Iterable[str]) -> bool:
        """Return whether its user, its label or each process's name is one of these; * stands for anything."""
        folded = [pattern.casefold() for pattern in patterns]

        def meant(text: str) -> bool:
            return bool(text) and any(fnmatchcase(text.casefold(), pattern) for pattern in folded)

        return meant(self.user) or meant(self.label) or all(meant(name) for name in (self.name, *self.others))


class Jobs:
    """Who is who among the machine's processes; what is known is asked again every 10 s.

    Args:
        root: where the machine's files lie.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._known: dict[int, tuple[float, Process]] = {}

    def of(self, pids: Iterable[int], now_s: float) -> tuple[Job, ...]:
        """Return the jobs to which processes belong, in order of their first process.

        Args:
            pids: processes.
            now_s: time, of a clock that only grows.
        """
        grouped: dict[str, list[Process]] = {}
        for pid in sorted(set(pids)):
            process = self._process(pid, now_s)
            key = process.label or (f"session {process.session}" if process.session else f"pid {pid}")
            grouped.setdefault(key, []).append(process)
        return tuple(
            Job(
                key,
                tuple(one.pid for one in group),
                group[0].name,
                group[0].user,
                group[0].label,
                tuple(dict.fromkeys(one.name for one in group if one.name != group[0].name)),
            )
            for key, group in grouped.items()
        )

    def __len__(self) -> int:
        return len(self._known)

    def forget(self, alive: Iterable[int]) -> None:
        """Forget processes that are on no GPU any more."""
        kept = set(alive)
        self._known = {pid: known for pid, known in self._known.items() if pid in kept}

    def _process(self, pid: int, now_s: float) -> Process:
        renewed, process = self._known.get(pid, (float("-inf"), Process(pid)))
        if now_s >= renewed + RENEW_S:
            process = look(self._root, pid)
            self._known[pid] = (now_s, process)
        return process


def look(root: Path, pid: int) -> Process:
    """Return what can be read of a process."""
    stat = procfs.text(root / f"proc/{pid}/stat") or ""
    words = stat[stat.rfind(")") + 2 :].split()
    if len(words) < 20:  # gone, hidden, or no Linux
        return Process(pid)
    command = procfs.command(root, pid)
    return Process(
        pid,
        started=int(words[19]),
        session=int(words[3]),
        name=program(command) or stat[stat.find("(") + 1 : stat.rfind(")")],
        user=_user(root / f"proc/{pid}"),
        label=label(procfs.text(root / f"proc/{pid}/cgroup") or "", procfs.environment(root, pid) or {}),
    )


def program(command: tuple[str, ...]) -> str:
    """Return what a person calls a command line: the script or module of a Python, else the program."""
    if not command:
        return ""
    words = [*command]
    first = words[0].rsplit("/", 1)[-1]
    if not INTERPRETER.match(first):
        return first
    for position, word in enumerate(words[1:], 1):
        if word == "-m":
            return words[position + 1] if position + 1 < len(words) else first
        if word == "-c":
            return f"{first} -c"
        if not word.startswith("-"):
            return word.rsplit("/", 1)[-1]
    return first


def label(cgroup: str, environ: dict[str, str]) -> str:
    """Return what a scheduler calls the job, by the control group of a process or its environment."""
    if job := SLURM.search(cgroup):
        return f"slurm {job[1]}"
    if environ.get("SLURM_JOB_ID", "").isdecimal():
        return f"slurm {environ['SLURM_JOB_ID']}"
    if pod := POD.search(cgroup):
        return f"pod {pod[1].replace('_', '-')}"
    container = CONTAINER.search(cgroup)
    return f"container {container[1]}" if container else ""


def _user(path: Path) -> str:
    try:
        number = path.stat().st_uid
        name: str = importlib.import_module("pwd").getpwuid(number).pw_name
    except (OSError, ImportError):
        return ""
    except KeyError:  # of another machine or container
        return f"user {number}"
    return name
