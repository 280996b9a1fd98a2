"""What is kept of a run to hold later ones against, the limits that these have to keep, and whether they do.

The JSON of `whyidle baseline save` and `whyidle check` is these dataclasses written out; docs/check.md describes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from whyidle.model.comparison import Confounder, Interval
from whyidle.model.finding import GpuCount

if TYPE_CHECKING:
    from whyidle.model.evidence import Value

Outcome: TypeAlias = Literal["pass", "fail", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is kept of a run: what it was, and how it did. None is not measured."""

    made: str = ""  # when it was measured for this, ISO 8601, UTC
    whyidle: str = ""  # version that did
    gpus: tuple[GpuCount, ...] = ()
    on_gpu: bool | None = None  # whether it used one
    world_size: int | None = None
    batch_size: int | None = None  # of a rank
    samples_per_step: float | None = None  # all ranks together
    model: str | None = None  # class
    parameters: int | None = None
    torch_version: str | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)  # of precision and compilation
    steps_from: str = ""  # what steps were recognised by
    per: Literal["step", "sample", "token"] = "step"  # of what the times below are
    warm_up: int = 0  # steps that were dropped before those below
    # Of each start of the job, of each step in order: how sure a ratio of two runs is comes from these.
    step_seconds: tuple[tuple[float, ...], ...] = ()
    step_numbers: tuple[tuple[int, ...], ...] = ()  # in the run, of each of these steps; none where they are not known
    step_time_s: float | None = None  # median of them, of several starts the mean of their medians
    step_time_mean_s: float | None = None
    samples_per_s: float | None = None  # of the whole run, all ranks together
    tokens_per_s: float | None = None
    gpu_idle_share: float | None = None
    data_wait_share: float | None = None
    peak_memory_bytes: int | None = None  # of the rank with most

    @property
    def steps(self) -> int:
        """Return how many steps are kept, of all starts."""
        return sum(map(len, self.step_seconds))

    @property
    def size(self) -> int:
        """Return how many ranks, or where that is not told GPUs, the run had; 0 where neither is."""
        return self.world_size or sum(gpu.count for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may do at most; shares 0-1, and None is no limit."""

    step_time_regression: float | None = None  # median step, of that of the baseline more
    throughput_loss: float | None = None  # of that of the baseline less, by mean steps
    idle: float | None = None  # of the time
    data_wait: float | None = None  # of the time
    peak_memory_growth: float | None = None  # of that of the baseline more

    @property
    def relative(self) -> bool:
        """Say whether any of them takes a baseline."""
        return (self.step_time_regression, self.throughput_loss, self.peak_memory_growth) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Check:
    """One limit, and whether the run keeps it."""

    limit: str  # the field of Limits
    allowed: float
    outcome: Outcome
    measured: Interval | None  # 95%; of what has no interval low, likely and high are the same
    message: str  # one sentence without what it is about
    hint: str = ""  # where it cannot be told: what to do


@dataclass(frozen=True, slots=True)
class Gate:
    """The whole answer of `whyidle check`."""

    checks: tuple[Check, ...]
    run: Baseline
    baseline: Baseline | None = None
    differences: tuple[Confounder, ...] = ()  # between the two; what blocks was forced
    warnings: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Return the worst: a limit that is broken, before one that cannot be judged."""
        found = {check.outcome for check in self.checks}
        return "fail" if "fail" in found else "cannot tell" if "cannot tell" in found or not found else "pass"

    @property
    def exit_code(self) -> int:
        """Return 0 all limits kept, 1 one is broken, 2 one could not be judged and none is broken."""
        return {"pass": 0, "fail": 1, "cannot tell": 2}[self.outcome]
