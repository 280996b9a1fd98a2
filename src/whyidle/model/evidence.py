"""Evidence: what was recorded, as columns, before anything is concluded from it.

`read` makes these; nobody changes them. Time is int64 nanoseconds on the recording's own clock.
A text column is an int32 index into `Trace.strings`, -1 where the recording has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whyidle.model.record import Record as Record  # noqa: PLC0414 - a part of what there is to see

Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]
Floats64: TypeAlias = NDArray[np.float64]

Value: TypeAlias = bool | int | float | str


class Kind(IntEnum):
    """What a slice is. The first three are work of a device; the rest happens on a host thread."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    OP = 3  # a framework operator (`cpu_op`, in 2021 `Operator`)
    RANGE = 4  # a named range: ProfilerStep, record_function, enumerate(DataLoader) (`user_annotation`)
    PYTHON = 5  # a Python frame (`python_function`, with_stack=True)
    RUNTIME = 6  # a CUDA or HIP call, runtime or driver API
    OVERHEAD = 7  # the profiler's own


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSlices:
    """Kernels, copies and fills of one trace, in order of `start`. All columns have the same length."""

    start: Ints  # ns
    end: Ints  # ns
    kind: NDArray[np.uint8]  # Kind.KERNEL, MEMCPY or MEMSET
    name: Codes
    device: Codes  # as the recording numbers it; does not start at 0 everywhere
    stream: Ints
    correlation: Ints  # joins a launch (HostSlices.correlation) with what it launched; -1 none
    bytes: Ints  # copied; -1 unknown
    blocks_per_sm: Floats  # thread blocks over multiprocessors; NaN where not recorded (AMD)
    message: Ints  # elements in a collective's message ("In msg nelems"); -1 unknown
    group: Codes  # a collective's process group: its name, else its ranks; -1 unknown
    collective: Codes  # what a collective does, as PyTorch calls it: allreduce, _allgather_base; -1 unknown
    payload: Ints  # bytes of a collective, of its in- and output the larger, as nccl-tests counts; -1 unknown
    members: Ints  # ranks in a collective's group; -1 unknown

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class HostSlices:
    """What host threads did, in order of `start`; of slices that start together the longest comes first."""

    start: Ints  # ns
    end: Ints  # ns
    kind: NDArray[np.uint8]  # Kind.OP and above
    name: Codes
    thread: Codes  # index into Trace.threads
    correlation: Ints  # RUNTIME only; -1 none
    shapes: Codes  # "Input Dims" as JSON text; -1 not recorded (record_shapes=False)
    types: Codes  # "Input type" as JSON text; -1 not recorded
    arguments: Codes  # "Concrete Inputs" as JSON text, of convolutions and attention only; -1 not recorded, or not kept
    stacks: Codes  # "Call stack": the lines that Python was at, innermost first, with ";" between; -1 not recorded

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device as its own recording describes it; 0 and None where the recording does not say."""

    device: int
    name: str = ""
    multiprocessors: int = 0
    compute_capability: tuple[int, int] | None = None  # NVIDIA only
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One process, seen by torch.profiler."""

    path: str
    rank: int | None
    world_size: int | None
    device_slices: DeviceSlices
    host_slices: HostSlices
    strings: tuple[str, ...]
    threads: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    origin: int  # ns: where a trace viewer puts its zero, the earliest event
    events: int  # events in the file, of every phase
    metadata: Mapping[str, Value] = field(default_factory=dict)  # top-level scalars: record_shapes, with_stack, …
    warnings: tuple[str, ...] = ()  # what the reader had to repair or leave out
    kind: str = ""  # the format, as the JSON report calls it: Reader.kind


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the job that was watched."""

    node: str  # the machine's folder name: tells equal pids of two machines apart
    pid: int
    started: int  # ns, CLOCK_MONOTONIC of its machine, when its first record was written
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    restart: int | None = None  # of an elastic launcher
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A setting, and where it was seen."""

    name: str
    value: Value
    where: str = ""  # "train.py:12", or what told it: "NVML", "cgroup v2 cpu.max"
    subject: str = ""  # of what, where there are several: "loader 0", "gpu 3"


@dataclass(frozen=True, slots=True)
class SyncSite:
    """A line of the job's code at which the host waited for the device, in the steps that were watched for it."""

    file: str
    line: int
    function: str
    operation: str  # what waited, as PyTorch calls it; empty where it does not say
    count: int


@dataclass(frozen=True, slots=True)
class Stack:
    """Where a worker was found in samples of its stack, innermost frame first: (file, line, function)."""

    frames: tuple[tuple[str, int, str], ...]
    count: int
    state: str  # cpu, read, lock, sleep or other


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker process of a DataLoader did."""

    loader: int
    worker: int  # -1: there is none, the process makes its batches itself
    pid: int
    fetches: int  # batches
    fetch_s: float  # in all of them
    fetch_squares: float  # sum of squares of their durations, s^2
    cpu_s: float  # of the process while it made them
    run_delay_s: float  # ready to run in that time, and waiting for a CPU
    cpus_allowed: int | None = None
    threads: int | None = None  # that PyTorch may use in it
    stacks: tuple[Stack, ...] = ()


@dataclass(frozen=True, slots=True)
class LoaderSettings:
    """The arguments of a DataLoader, as far as they were seen; None is not known."""

    loader: int
    where: str = ""
    kind: str = ""  # class of the loader
    dataset: str = ""  # class of its data set
    dataset_path: str = ""
    file_system: str = ""
    batch_size: int | None = None
    num_workers: int | None = None
    pin_memory: bool | None = None
    prefetch_factor: int | None = None
    persistent_workers: bool | None = None
    length: int | None = None  # batches per epoch


@dataclass(frozen=True, slots=True, eq=False)
class StepLog:
    """What a process was seen to do around its steps: records, in order of their start, and what it was set to.

    All columns have the same length. The clock is CLOCK_MONOTONIC of its machine.
    """

    path: str
    process: Process
    kind: NDArray[np.uint8]  # Record
    flags: NDArray[np.uint8]
    thread: NDArray[np.uint16]
    sequence: Ints
    start: Ints  # ns
    duration: Ints  # ns
    value: Ints
    lost: int = 0  # records that were written and are not here
    facts: tuple[Fact, ...] = ()
    loaders: tuple[LoaderSettings, ...] = ()
    workers: tuple[Worker, ...] = ()
    sync_sites: tuple[SyncSite, ...] = ()
    sync_steps: int = 0  # steps that were watched for synchronisations
    graph_breaks: Mapping[str, int] = field(default_factory=dict)  # by reason
    recompilations: Mapping[str, int] = field(default_factory=dict)  # by reason
    later: bool = False  # other processes of the job had trained on the machine before it
    trace: str = ""  # name of the trace that it recorded
    export_ns: int = 0  # how long writing that took, beside the job, from when the profiler stopped; 0: not known
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A counter over time, of a device, a process, or (both None) a machine. The unit is part of its name."""

    name: str  # as the column is called: "utilization_percent", "cpu_busy_s"; those of a Curve: docs/curves.md
    node: str  # of its folder; of a curve the host, "" where the recording does not say
    time: Ints  # ns: CLOCK_MONOTONIC of the machine; of a curve by Curve.clock. Grows, never twice the same
    value: NDArray[np.float64]  # NaN where not measured
    device: int | None = None
    pid: int | None = None
    role: str = ""  # of a process: rank, worker or other
    instance: str = ""  # of a GPU that is split (MIG): what tells this one from its siblings, "1g.10gb 7"

    @property
    def subject(self) -> str:
        """Return of what it is, as measurements and facts call it: "gpu 3", "node7 gpu 3", "gpu 0 MIG 1g.10gb 7"."""
        device = "" if self.device is None else f"gpu {self.device}"
        return " ".join(filter(None, (self.node, device, self.instance and f"MIG {self.instance}")))


Clock: TypeAlias = Literal["wall", "relative", "assumed"]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Counters over time that somebody else recorded: one file of nvidia-smi, DCGM, CloudWatch, Prometheus, a trainer.

    A file may also hold only what was at one moment: then every series has one value, and it is a point, no curve.
    """

    path: str
    kind: str  # the format, as the JSON report calls it: Reader.kind
    series: tuple[Series, ...]
    clock: Clock = (
        "wall"  # Series.time: ns since 1970 UTC; since the recording began; or samples times a usual interval
    )
    facts: tuple[
        Fact, ...
    ] = ()  # name, memory_bytes, power_limit_w, sm_clock_max_mhz of GPUs, subject as Series.subject
    step_log: bool = False  # what a trainer printed, step by step: step_time_s, data_wait_s, tokens_per_s
    warnings: tuple[str, ...] = ()  # what the reader had to repair or leave out


@dataclass(frozen=True, slots=True)
class Node:
    """A machine on which the job was watched."""

    name: str  # of its folder
    path: str
    host: str
    command: tuple[str, ...]
    started: int  # ns, CLOCK_MONOTONIC
    wall: int  # ns since 1970, the same moment
    ended: int | None = None  # ns, CLOCK_MONOTONIC; None while it runs, or where the recording was cut off
    exit_code: int | None = None
    signal: int | None = None
    ended_on_purpose: str = ""  # by whom, and why: a sentence; empty where it ended by itself, or nobody says
    facts: tuple[Fact, ...] = ()  # of the machine and its GPUs
    nvml: str = ""  # "ok", or why there is none
    not_captured: tuple[str, ...] = ()  # processes that could not be watched, and what to do
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file that was not judged, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Run:
    """Evidence of one job."""

    traces: tuple[Trace, ...] = ()  # one per rank, by rank
    logs: tuple[StepLog, ...] = ()  # one per process that trained, by rank
    series: tuple[Series, ...] = ()
    nodes: tuple[Node, ...] = ()  # machines on which `whyidle run` watched the job
    curves: tuple[Curve, ...] = ()  # what others recorded of its GPUs and steps
    ignored: tuple[Ignored, ...] = ()
    warnings: tuple[str, ...] = ()
