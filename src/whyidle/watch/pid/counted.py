"""One process while it is looked at: its counters at first and at last, and what its main thread was met doing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from whyidle.collect import files, procfs, tasks
from whyidle.collect.processes import Process, main_thread
from whyidle.model.evidence import Stack
from whyidle.model.live import LiveProcess, OpenFile

MOST_FILES = 8  # of a process, those that matter


class Counted:
    """What is kept of a process.

    Args:
        process: as it is now.
        now: s.
        root: where the machine's files lie.
    """

    def __init__(self, process: Process, now: float, root: Path = Path("/")) -> None:
        self.process = process
        self.ended = False
        self.opened = files.descriptors(root, process.pid)  # None: hidden
        self.moved = self._moved_last = procfs.fields(root / f"proc/{process.pid}/io")  # empty: hidden
        self._root, self._folder = root, f"{root}/proc/{process.pid}"
        self._began = self._at = now
        self.first = self.last = process.stat
        self._main = self._main_last = main_thread(self._folder, process.stat)
        self._delays = tasks.run_delay_s(self._folder)  # by thread
        self._delayed_s: float | None = None
        self._doing: Counter[str] = Counter()
        self._blocked: Counter[str] = Counter()  # by path
        self._files: tuple[OpenFile, ...] = ()
        number = (procfs.environment(root, process.pid) or {}).get("RANK", "")
        self._rank = int(number) if re.fullmatch(r"[0-9]{1,7}", number) else None
        cpus = procfs.allowed_cpus(root, process.pid)
        self._cpus_allowed = len(cpus) if cpus else None

    def count(self, now: float) -> None:
        """Read the counters; what is gone keeps its last ones."""
        main, moved = main_thread(self._folder, self.process.stat), procfs.fields(f"{self._folder}/io")
        if main[0] is not None:
            self._at, self.last, self._main_last = now, self.process.stat, main
            self._moved_last = moved or self._moved_last

    def sample(self) -> None:
        """Note what the main thread does at this moment."""
        task = tasks.look(f"{self._folder}/task/{self.process.pid}")
        if task is None:
            return
        doing = task.doing
        if task.descriptor is not None:
            path = files.target(self._root, self.process.pid, task.descriptor)
            if path is None or path.startswith("pipe:["):
                doing = "wait"  # for another process: a queue of multiprocessing, a command
            elif path.startswith("socket:["):
                doing = "socket"
            else:
                self._blocked[path] += 1
        self._doing[doing] += 1

    def close(self) -> bool:
        """Read what is read only at the end: threads' delays and positions in files; return whether files show."""
        after = tasks.run_delay_s(self._folder)
        both = after.keys() & self._delays.keys()
        self._delayed_s = sum(after[thread] - self._delays[thread] for thread in both) if both else None
        opened = files.descriptors(self._root, self.process.pid)
        self._files = self._moving(opened or {})
        return opened is not None and self.opened is not None

    def _moving(self, opened: Mapping[int, files.Descriptor]) -> tuple[OpenFile, ...]:
        mounts = procfs.mounts(self._root, self.process.pid)
        moved: dict[str, int] = {}
        for number, now in opened.items():
            before = (self.opened or {}).get(number)
            if before is None or before.path != now.path or before.position is None or now.position is None:
                continue
            moved[now.path] = moved.get(now.path, 0) + max(now.position - before.position, 0)
        paths = {path for path, grown in moved.items() if grown} | self._blocked.keys()
        found = [
            OpenFile(path, files.file_system(path, mounts), moved.get(path), self._blocked[path]) for path in paths
        ]
        found.sort(key=lambda file: (-file.blocked, -(file.moved_bytes or 0), file.path))
        return tuple(found[:MOST_FILES])

    def opens_gpu(self) -> bool:
        """Say whether it has a GPU's device open: /dev/nvidia0, /dev/kfd of AMD."""
        paths = [file.path for file in (self.opened or {}).values()]
        return any(path == "/dev/kfd" or path.removeprefix("/dev/nvidia").isdecimal() for path in paths)

    def evidence(self, role: str, parent: int, stacks: tuple[Stack, ...]) -> LiveProcess:
        """Return what was seen of it."""
        main, last, stat = self._main, self._main_last, self.process.stat
        return LiveProcess(
            pid=self.process.pid,
            parent=parent,
            name=stat.name,
            role=role,
            rank=self._rank if role == "rank" else None,
            command=self.process.command,
            seen_s=self._at - self._began,
            ended=self.ended,
            cpu_s=_grown(self.last.cpu_s, self.first.cpu_s),
            main_cpu_s=_grown(last[0], main[0]),
            main_run_delay_s=_grown(last[1], main[1]),
            threads_run_delay_s=self._delayed_s,
            block_delay_s=_grown(self.last.block_delay_s, self.first.block_delay_s),
            read_bytes=self._moved("read_bytes"),
            major_faults=self.last.major_faults - self.first.major_faults,
            threads=self.last.threads,
            cpus_allowed=self._cpus_allowed,
            doing=dict(self._doing),
            files=self._files,
            stacks=stacks,
        )

    def _moved(self, name: str) -> int | None:
        if name not in self.moved or name not in self._moved_last:
            return None
        return max(self._moved_last[name] - self.moved[name], 0)


def _grown(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else max(after - before, 0.0)
