"""What v1 has to reach. Accepted answers count: no tool can read from a trace what is not in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scoring.alarms import Alarms
from scoring.attribution import WITHIN_POINTS, Attribution
from scoring.causes import CauseScore
from scoring.order import Order

F1 = 0.9
TOP1 = 0.9


@dataclass(frozen=True, slots=True)
class Target:
    """A goal and what was reached; `met` is None where nothing was measured."""

    goal: str
    reached: str
    met: bool | None


def targets(
    causes: Sequence[CauseScore], attribution: Attribution, order: Order, alarms: Sequence[Alarms]
) -> tuple[Target, ...]:
    return (*_found(causes), _attributed(attribution), _first(order), *map(_quiet, alarms))


def _found(causes: Sequence[CauseScore]) -> tuple[Target, ...]:
    asked = [cause for cause in causes if cause.accepted.recall.n or cause.accepted.precision.ratio != 1]
    low = [cause for cause in asked if cause.accepted.f1 is None or cause.accepted.f1 < F1]
    reached = f"{len(asked) - len(low)} of {len(asked)} causes"
    return (Target(f"F1 of {F1} or more for each cause", reached, not low if asked else None),)


def _attributed(attribution: Attribution) -> Target:
    goal = f"idle by cause within {WITHIN_POINTS:g} points in 95% of the jobs"
    within, p95 = attribution.within, attribution.points.p95
    if within.ratio is None or p95 is None:
        return Target(goal, "nothing measured", None)
    reached = f"{within.hits} of {within.n} jobs, p95 {p95:.1f} points, {attribution.without} without"
    return Target(goal, reached, within.ratio >= 0.95 and not attribution.without)


def _first(order: Order) -> Target:
    top = order.main.top1_accepted
    reached = f"{top.hits} of {top.n} jobs"
    return Target(
        f"first finding right in {TOP1:.0%} of jobs with a fault of {order.main.label}",
        reached,
        None if top.ratio is None else top.ratio >= TOP1,
    )


def _quiet(alarms: Alarms) -> Target:
    high = alarms.high
    bad = high.hits + alarms.failed  # a crash is no silence
    return Target(f"no high finding on a {alarms.kind} job", f"{bad} of {high.n} jobs", _none(bad, high.n))


def _none(hits: int, n: int) -> bool | None:
    return hits == 0 if n else None
