"""What is asked of a sweep: kept in its folder, so that it can go on where it was interrupted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

from whyidle.errors import WhyIdleError
from whyidle.sweep.budget import Budget

SETTLE_SHARE = 0.02  # of the mean step: half the width of its interval
FINEST_SHARE = 0.001
MIN_STEPS = 50
FEWEST_STEPS = 3  # of fewer there is no interval
CELL_TIME_S = 600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a cell ends: when its step time is known well enough, or at the latest."""

    settle_share: float = SETTLE_SHARE  # half the width of the mean step's 95% interval, over the mean
    min_steps: int = MIN_STEPS  # after the warm-up, before it can be settled
    cell_time_s: float = CELL_TIME_S  # wall
    cell_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep as it was asked for."""

    command: tuple[str, ...]
    parameters: tuple[str, ...]  # as they were given to -p
    limits: Limits = field(default_factory=Limits)
    strategy: str = "grid"
    repeats: int = 1
    gpus: tuple[str, ...] = ()  # a cell at a time on each of these; empty: one cell at a time on all that there are
    budget: Budget = field(default_factory=Budget)
    usd_per_gpu_hour: float | None = None  # as it was given; None: the list price, if there is one

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            WhyIdleError: says what.
        """
        limits = self.limits
        if not self.command:
            raise WhyIdleError("a sweep of what?", "whyidle sweep -p num_workers=0,4,8 -- python train.py")
        if not self.parameters:
            raise WhyIdleError("nothing to vary: a sweep has a parameter at least", "-p num_workers=0,4,8")
        if not FINEST_SHARE <= limits.settle_share < 1:
            raise WhyIdleError(
                f"--settle is 0.1% to 100% of a step, not {100 * limits.settle_share:.4g}%", "--settle 2%"
            )
        if limits.min_steps < FEWEST_STEPS:
            raise WhyIdleError(f"--min-steps is {FEWEST_STEPS} or more, not {limits.min_steps}", "--min-steps 50")
        if limits.cell_steps is not None and limits.cell_steps < FEWEST_STEPS + 1:
            raise WhyIdleError(f"--cell-steps is {FEWEST_STEPS + 1} or more, not {limits.cell_steps}", "")
        if not (math.isfinite(limits.cell_time_s) and limits.cell_time_s > 0):
            raise WhyIdleError(f"--cell-time is more than 0 s, not {limits.cell_time_s:g}", "--cell-time 10m")
        if self.repeats < 1:
            raise WhyIdleError(f"--repeats is 1 or more, not {self.repeats}", "--repeats 3")
        if len(set(self.gpus)) < len(self.gpus) or not all(gpu.strip() for gpu in self.gpus):
            raise WhyIdleError(f"--gpus names each GPU once, not {','.join(self.gpus)}", "--gpus 0,1")


def going_on(before: Plan, now: Plan) -> Plan:
    """Return the plan of a sweep that goes on: cells that are done have to be comparable with those to come.

    More values of the same parameters, other values, more repeats and another strategy are fine: they add cells.

    Raises:
        WhyIdleError: the command, the parameters, or when a cell ends are others.
    """
    names_before, names_now = names(before), names(now)
    changed = "command" if before.command != now.command else ""
    changed = changed or ("parameters" if names_before != names_now else "")
    for one in fields(Limits):
        if getattr(before.limits, one.name) != getattr(now.limits, one.name):
            changed = changed or f"--{one.name.removesuffix('_share').removesuffix('_s').replace('_', '-')}"
    if before.gpus != now.gpus:
        changed = changed or "--gpus"
    if changed:
        was = {"command": " ".join(before.command), "parameters": " ".join(names_before)}.get(changed, "")
        other = "other" if changed == "parameters" else "another"
        raise WhyIdleError(
            f"this folder holds a sweep with {other} {changed}" + (f": {was}" if was else ""),
            "-o another folder; or --resume DIR alone goes on as it was",
        )
    return replace(now, parameters=tuple(map(_joined, before.parameters, now.parameters)))


def names(plan: Plan) -> list[str]:
    """Return the names of the parameters as they were given."""
    return [text.partition("=")[0].strip() for text in plan.parameters]


def _joined(before: str, now: str) -> str:
    """Return a parameter with the values of both."""
    name, _, values = now.partition("=")
    old = before.partition("=")[2]
    if old == values:
        return now
    both = dict.fromkeys(value.strip() for value in f"{old},{values}".split(",") if value.strip())
    return f"{name}={','.join(both)}"
