"""The job's processes: who they are, and what each used of CPUs and storage.

The job is the tree below its first process, and whoever carries our mark in its environment: a process whose parent
died belongs to another parent, and still to the job. Processes come and go while they are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from whyidle.collect import procfs
from whyidle.collect.counters import Cell

COLUMNS = (
    *("pid", "parent_pid", "role", "cpu_s", "run_delay_s", "read_bytes", "write_bytes", "read_chars", "major_faults"),
    *("block_delay_s", "threads", "main_thread_cpu_s", "cpus_allowed", "memory_bytes"),
)
MARK = "WHYIDLE_CAPTURE"  # the variable of the environment that the job inherits
MOST = 256  # processes that are sampled: about 100 us of CPU each
RESCAN_NS = 10_000_000_000  # between two looks at processes that were not the job's: one may have been just forked
AFFINITY_SAMPLES = 16  # between two looks at a process's affinity, which seldom changes
REMEMBERED = 65_536  # processes that have ended
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

ROLES = ("rank", "worker", "other")


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says."""

    name: str
    state: str
    parent: int
    major_faults: int
    cpu_s: float
    threads: int
    started: int  # ticks since boot
    resident_bytes: int
    block_delay_s: float | None  # of the main thread


@dataclass(slots=True)
class Process:
    """A process of the job."""

    pid: int
    stat: Stat
    command: tuple[str, ...]
    role: str = "other"
    samples: int = 0
    cpus_allowed: int | None = None
    written_cpu_s: float = 0.0  # as of its last row


def parse_stat(data: bytes, *, delays: bool) -> Stat | None:
    """Return what a line of /proc/PID/stat says; None if it is none.

    Args:
        data: the line.
        delays: the kernel counts how long a task waits for storage.
    """
    opened, closed = data.find(b"("), data.rfind(b")")  # a name may hold both
    words = data[closed + 2 :].split()
    if opened < 0 or len(words) < 22:
        return None
    blocked = int(words[39]) if delays and len(words) > 39 else None
    return Stat(
        name=data[opened + 1 : closed].decode("utf-8", "replace"),
        state=chr(words[0][0]),
        parent=int(words[1]),
        major_faults=int(words[9]),
        cpu_s=(int(words[11]) + int(words[12])) / TICKS_PER_S,
        threads=int(words[17]),
        started=int(words[19]),
        resident_bytes=int(words[21]) * PAGE_BYTES,
        block_delay_s=None if blocked is None else blocked / TICKS_PER_S,
    )


class Processes:
    """The job's processes.

    Args:
        root_pid: the first.
        mark: what WHYIDLE_CAPTURE holds in the environment of the job; empty: of a job that was started without us.
        warn: is told once when there are more than are sampled.
        root: where the machine's files lie.
        most: processes that are sampled.
    """

    def __init__(
        self, root_pid: int, mark: str, warn: Callable[[str], None], root: Path = Path("/"), most: int = MOST
    ) -> None:
        self._root_pid = root_pid
        self._mark = f"{MARK}={mark}".encode()
        self._is_marked = bool(mark)
        self._warn = warn
        self._root = root
        self._proc = f"{root}/proc"
        self._most = most
        self._job: dict[int, Process] = {}
        self._others: set[int] = set()
        self._ended: dict[int, None] = {}
        self._rescan = 0
        # Linux counts waits for storage only where it is told to since 5.14; before, where it was built to.
        self._delays = procfs.number(f"{self._proc}/sys/kernel/task_delayacct")

    @property
    def alive(self) -> dict[int, Process]:
        """The job's processes as of the last look, by their ids."""
        return self._job

    def ended(self, pid: int) -> bool:
        """Return whether this was a process of the job that is known to have ended."""
        return pid in self._ended and pid not in self._job

    def pids(self) -> set[int]:
        """Return all processes that are or were the job's: NVML names some a moment longer."""
        return self._ended.keys() | self._job.keys()

    def look(self, now_ns: int) -> None:
        """Find out who is there.

        Args:
            now_ns: time, of a clock that only grows.
        """
        for pid, process in list(self._job.items()):
            stat = self._stat(pid)
            if stat is None or stat.started != process.stat.started or stat.state in "ZX":
                del self._job[pid]
                self._ended[pid] = None
                if len(self._ended) > REMEMBERED:
                    del self._ended[next(iter(self._ended))]
            else:
                if stat.name != process.stat.name:  # it runs another program, or was given a name
                    process.command = procfs.command(self._root, pid)
                process.stat = stat
        self._find_new(now_ns)

    def _find_new(self, now_ns: int) -> None:
        try:
            pids = {int(path) for path in os.listdir(self._proc) if path.isdecimal()}  # noqa: PTH208  names, not paths
        except OSError:
            return
        if now_ns >= self._rescan:
            self._others.clear()
            self._rescan = now_ns + RESCAN_NS
        self._others &= pids
        stats = {pid: stat for pid in pids - self._others - self._job.keys() if (stat := self._stat(pid))}
        found = [pid for pid in stats if pid == self._root_pid or stats[pid].parent in self._job or self._marked(pid)]
        children: dict[int, list[int]] = {}
        for pid, stat in stats.items():
            children.setdefault(stat.parent, []).append(pid)
        while found:
            pid = found.pop()
            if pid not in self._job and stats[pid].state not in "ZX":
                self._job[pid] = Process(pid, stats[pid], procfs.command(self._root, pid))
                self._ended.pop(pid, None)
            found.extend(child for child in children.pop(pid, ()) if child not in self._job)
        self._others |= stats.keys() - self._job.keys()

    def _marked(self, pid: int) -> bool:
        if pid == os.getpid() or not self._is_marked:
            return False
        return self._mark in (procfs.read(f"{self._proc}/{pid}/environ") or b"").split(b"\0")

    def _stat(self, pid: int) -> Stat | None:
        data = procfs.read(f"{self._proc}/{pid}/stat")
        return parse_stat(data, delays=self._delays != 0) if data else None

    def sample(self, ringed: Collection[int]) -> list[tuple[Cell, ...]]:
        """Return a row per process that used CPU time, with a value per name in COLUMNS; None where it is not known.

        Args:
            ringed: processes that have a ring, which are those that train.
        """
        for process in self._job.values():
            process.role = self._role(process, ringed)
        chosen = sorted(self._job.values(), key=lambda process: (ROLES.index(process.role), process.stat.started))
        if len(chosen) > self._most:
            self._warn(f"the job has more than {self._most} processes: no more of them are sampled")
        return [row for process in chosen[: self._most] if (row := self._row(process))]

    def _role(self, process: Process, ringed: Collection[int]) -> str:
        if process.pid in ringed or process.role == "rank":
            return "rank"
        if process.role == "worker" or process.stat.name.startswith("pt_data_worker"):
            return "worker"
        spawned = "--multiprocessing-fork" in process.command and process.stat.parent in ringed
        return "worker" if spawned else "other"

    def _row(self, process: Process) -> tuple[Cell, ...] | None:
        stat, folder = process.stat, f"{self._proc}/{process.pid}"
        if process.role == "other" and stat.cpu_s <= process.written_cpu_s:
            return None  # nothing to add
        if process.samples % AFFINITY_SAMPLES == 0:
            cpus = procfs.allowed_cpus(self._root, process.pid)
            process.cpus_allowed = len(cpus) if cpus else None
        process.samples += 1
        process.written_cpu_s = stat.cpu_s
        main_cpu_s, run_delay_s = main_thread(folder, stat)
        moved = procfs.fields(f"{folder}/io")
        blocked = stat.block_delay_s or (stat.block_delay_s if self._delays else None)
        return (
            *(process.pid, stat.parent, process.role, stat.cpu_s, run_delay_s),
            *(moved.get(name) for name in ("read_bytes", "write_bytes", "rchar")),
            *(stat.major_faults, blocked, stat.threads, main_cpu_s, process.cpus_allowed, stat.resident_bytes),
        )


def main_thread(folder: str, stat: Stat) -> tuple[float | None, float | None]:
    """Return for how long a process's main thread ran and for how long it waited for a CPU, in s.

    Args:
        folder: /proc/PID.
        stat: of the process.
    """
    words = (procfs.read(f"{folder}/schedstat") or b"").split()
    if len(words) == 3 and (any(word != b"0" for word in words) or stat.cpu_s == 0):
        return int(words[0]) / 1e9, int(words[1]) / 1e9
    # All zero: a kernel without these statistics.
    own = procfs.read(f"{folder}/task/{folder.rsplit('/', 1)[1]}/stat")
    thread = parse_stat(own, delays=False) if own else None
    return (thread.cpu_s if thread else None), None
