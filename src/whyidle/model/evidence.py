"""Evidence: what was recorded, as columns, before anything is concluded from it.

`read` makes these; nobody changes them. Time is int64 nanoseconds on the recording's own clock.
A text column is an int32 index into `Trace.strings`, -1 where the recording has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]

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
class Ignored:
    """A file that was not judged, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Run:
    """Evidence of one job."""

    traces: tuple[Trace, ...] = ()  # one per rank, by rank
    ignored: tuple[Ignored, ...] = ()
    warnings: tuple[str, ...] = ()
