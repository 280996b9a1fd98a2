"""The tables behind the numbers: kernels, operators, copies, curves, as a report holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

# Metadata of a dataclass field that the JSON report leaves out: what is only drawn.
DRAWN: Final[Mapping[str, bool]] = {"json": False}


@dataclass(frozen=True, slots=True)
class TopItem:
    """A kernel or an operator by the time that it takes itself, as `key_averages()` would list it."""

    name: str
    calls: int
    total_s: float
    share: float  # kernels: of all device time; operators: of all operator self time


@dataclass(frozen=True, slots=True)
class Copies:
    """Memory copies of one kind: HtoD, DtoH, DtoD, PtoP."""

    kind: str
    pinned: bool | None  # of the host side; None where there is none or the recording does not say
    count: int
    bytes: int | None
    total_s: float
    share: float  # of the window
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Roofline:
    """Calls of one operator of known sizes, in one type of number, next to what the GPU could do."""

    operator: str
    number: str  # in what the arithmetic is done, "tf32"; "" where there is none
    calls: int
    total_s: float  # of its kernels
    flop: float
    bytes: float
    attained_share: float  # least time by the GPU's arithmetic and memory, over total_s
    bound: Literal["compute", "memory", "latency"]  # what limits most of that time


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bar of the kernel-size histogram; `above_s` is inclusive, `below_s` None for the last."""

    above_s: float
    below_s: float | None
    count: int
    total_s: float


@dataclass(frozen=True, slots=True)
class CurvePicture:
    """The curve of one GPU: what was measured of it, and as few points as a screen shows."""

    file: str
    device: int
    node: str = ""  # the host, where the recording tells it
    instance: str = ""  # of a GPU that is split (MIG)
    window_s: float = 0.0  # from its first sample to its last
    samples: int = 0
    busy_share: float | None = None  # None: its utilization was not measured
    points: tuple[float | None, ...] = ()  # mean utilization of equal parts of the time, 0-1; of many GPUs of some
    means: Mapping[str, float] = field(default_factory=dict)  # of each of its series, by name (docs/curves.md)
    gpus: int = 1  # whose mean this is


@dataclass(frozen=True, slots=True)
class Detail:
    """What the numbers come from, for a reader who wants to look further."""

    kernels: tuple[TopItem, ...] = ()
    operators: tuple[TopItem, ...] = ()
    copies: tuple[Copies, ...] = ()
    kernel_sizes: tuple[Bucket, ...] = ()
    rooflines: tuple[Roofline, ...] = ()
    curves: tuple[CurvePicture, ...] = ()
