"""Evidence of a job that runs already: what the kernel tells of its processes from outside, over some seconds.

Nothing is known of its batches or steps. Counters are of the watched time only; None is not known, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whyidle.model.evidence import Series, Stack, Value

# What a thread was met doing, each sample one of them. Sockets also bring tensors from workers.
DOINGS = ("run", "read", "socket", "wait", "sleep", "other")


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that a process has open, and what the kernel says of it."""

    path: str
    file_system: str  # "nfs4", "fuse.gcsfuse", "ext4", "pipe", "socket"; "" not known
    moved_bytes: int | None = None  # by how much its position grew while it was watched; None for what has none
    blocked: int = 0  # samples in which a thread was met in a read of it


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A process of the job. Times in s, of the watched time."""

    pid: int
    parent: int  # of a worker: the process that it works for
    name: str
    role: str  # rank, worker or other
    command: tuple[str, ...] = ()
    seen_s: float = 0.0  # for how long it was watched; less than the whole if it began or ended meanwhile
    ended: bool = False  # while it was watched
    cpu_s: float | None = None  # of all its threads
    main_cpu_s: float | None = None  # of its main thread
    main_run_delay_s: float | None = None  # of that: ready to run, waiting for a CPU
    threads_run_delay_s: float | None = None  # of all threads that lived from the first look to the last
    block_delay_s: float | None = None  # waiting for storage, where the kernel counts it
    read_bytes: int | None = None  # from storage
    major_faults: int = 0
    threads: int = 0
    cpus_allowed: int | None = None
    doing: Mapping[str, int] = field(default_factory=dict)  # samples of its main thread, by DOINGS
    files: tuple[OpenFile, ...] = ()
    stacks: tuple[Stack, ...] = ()  # of its main thread; empty: not seen
    rank: int | None = None  # that its launcher gave it


@dataclass(frozen=True, slots=True)
class Live:
    """A job that was watched from outside while it ran."""

    pid: int  # that was asked for
    seconds: float  # that it was watched
    processes: tuple[LiveProcess, ...]
    machine: Mapping[str, float]  # catalogue names of what is measured of the machine: cpus_online, cpu_pressure_share
    on_gpu: bool | None = None  # None: not known
    gpu_series: tuple[Series, ...] = ()  # NVML's counters of the GPUs that it is on
    gpu_names: Mapping[int, str] = field(default_factory=dict)
    gpu_facts: Mapping[int, Mapping[str, Value]] = field(default_factory=dict)  # as docs/curves.md names them
    stacks: str = ""  # why there are no stacks; empty: there are
    ended: bool = False  # the process that was asked for ended meanwhile
    warnings: tuple[str, ...] = ()
