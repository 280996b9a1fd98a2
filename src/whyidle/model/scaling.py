"""What is said of a job that ran on several numbers of GPUs: how much of each GPU is left, what the rest is lost to.

The JSON of `whyidle scaling` is these dataclasses written out; docs/scaling.md describes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from whyidle.model.comparison import Interval

# strong: all GPUs together take the same batch at every size; weak: each of them does
Kind: TypeAlias = Literal["strong", "weak", "mixed"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Where the GPUs' time goes that linear scaling would have used; shares of that time, at this size.

    The parts sum to `total`. None: not recorded at both sizes, and then it is among what is not explained. A part below
    zero is smaller than at the base.
    """

    total: float  # 1 - efficiency
    communication: float | None  # collectives with no kernel beside them, less what they wait
    imbalance: float | None  # waiting for ranks that come late
    input: float | None  # waiting for data
    unexplained: float  # the rest: smaller kernels, lower clocks, the host, and what was not recorded


@dataclass(frozen=True, slots=True)
class Size:
    """The job on so many GPUs. An interval without an upper limit: nothing tells how much it varies."""

    gpus: int
    throughput: Interval  # of `Scaling.unit` per second, all GPUs together
    speedup: Interval  # over the smallest size
    efficiency: Interval  # of linear: the speedup over how many times the GPUs there are
    loss: Loss | None  # None of the smallest size, which is what others are held against
    paths: tuple[str, ...] = ()
    steps: int | None = None  # that count, after the warm-up
    step_time_mean_s: float | None = None
    batch: float | None = None  # samples in a step, all GPUs together
    cpus_per_rank: float | None = None
    gpu_hours_per_million: float | None = None  # of `Scaling.unit`; None where that is no unit of work
    usd_per_million: float | None = None


@dataclass(frozen=True, slots=True)
class Doubling:
    """What twice the GPUs would do, by laws of scaling that were fitted to the sizes; the range is that of the fits."""

    gpus: int
    throughput: Interval
    gain: Interval  # over the largest size measured; linear would be 2
    efficiency: Interval
    sizes: int  # that it rests on
    usd_per_million: float | None = None


@dataclass(frozen=True, slots=True)
class Scaling:
    """The whole answer of `whyidle scaling`."""

    verdict: str
    kind: Kind | None  # None: batch sizes are not known
    why_kind: str
    unit: str  # of work, as in "samples per second"
    sizes: tuple[Size, ...]  # smallest first
    doubling: Doubling
    usd_per_gpu_hour: float | None = None
    price_source: str = ""
    cheapest: int | None = None  # GPUs of the size at which a unit takes the fewest GPU-hours
    dearer_from: int | None = None  # the first larger size at which it takes more, beyond what varies; None: none
    not_recorded: tuple[str, ...] = field(default_factory=tuple)  # parts of the loss
    how_to_record: str = ""  # them, or why nothing does
    warnings: tuple[str, ...] = ()
