"""What a sweep tried: a cell for each combination of values, and the one to take.

The JSON of `whyidle sweep` is these dataclasses written out; docs/sweep.md describes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from whyidle.model.comparison import Interval

Params: TypeAlias = Mapping[str, str]  # name of a parameter, as it was given to -p, -> value as text

Unit: TypeAlias = Literal["samples", "tokens", "steps"]  # that throughput counts
# ok: it ended by itself, or was settled and ended by us; the others have no throughput, or one that is not settled
Status: TypeAlias = Literal["ok", "out of memory", "failed", "timed out", "no steps", "interrupted", "not run"]
FINISHED: Final = ("ok", "out of memory", "failed", "timed out", "no steps")  # is not run again by a sweep that goes on
BY_ITSELF: Final = "it ended by itself"  # why a cell ended that is ok, and that the sweep did not end


@dataclass(frozen=True, slots=True)
class Cell:
    """One job of a sweep, and what was measured of it; None is not measured."""

    params: Params
    status: Status
    folder: str = ""  # its run directory, below the sweep's
    why: str = ""  # of what it failed, or why it ended
    runs: int = 0  # of the job that are in its numbers
    steps: int = 0  # that count, after the warm-up
    settled: bool = False  # the interval of the mean step is below the bound that was asked for
    seconds: float = 0.0  # that the cell took, wall
    step_time_s: float | None = None  # median
    step_time_mean_s: Interval | None = None
    throughput: Interval | None = None  # of `throughput_unit` per second
    throughput_unit: Unit = "steps"
    data_wait_share: float | None = None
    gpu_idle_share: float | None = None
    peak_memory_bytes: int | None = None  # of one device
    memory_bytes: int | None = None  # that this device has
    peak_host_memory_bytes: int | None = None  # of all the job's processes
    cpu_busy_share: float | None = None  # of the CPUs that the job may use
    io_wait_share: float | None = None  # of the workers' time in which they computed nothing
    fetch_s: float | None = None  # that one worker takes for a batch, mean; num_workers=0: the training process does
    fetch_cv: float | None = None  # sd over mean of that
    fetch_cpu_s: float | None = None  # of it on a CPU
    usd: float | None = None  # what the cell cost
    usd_per_million: float | None = None  # of `throughput_unit`; None without a price, or for steps
    speedup: Interval | None = None  # of its throughput over that of the first cell


@dataclass(frozen=True, slots=True)
class Sweep:
    """All cells, and the recommendation."""

    command: tuple[str, ...]
    strategy: str
    cells: tuple[Cell, ...]
    recommended: Params | None = None
    why: str = ""  # one sentence: why this one, and why not the next
    take: str = ""  # a line to paste: the command with the recommended values, or what to write in the script
    proof: str = ""  # the command that compares the first cell with the recommended one
    stopped: str = ""  # why not every cell was run; empty where all were
    folder: str = ""
    usd: float | None = None  # spent
    usd_per_gpu_hour: float | None = None
    price_source: str = ""
    gpus: int | None = None
    applied: Mapping[str, str] = field(default_factory=dict)  # by parameter: how its values reach the job, in words
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 0 where something was measured, 2 where no cell gave a number."""
        return 0 if any(cell.throughput is not None for cell in self.cells) else 2
