"""Does each idle nanosecond go to the cause that made it? In points: percent of the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring.rates import Rate, Spread
from scoring.records import Outcome

WITHIN_POINTS = 2.0
NAMED = 10  # jobs that are listed
SEEN_POINTS = 0.1  # a cause below this in truth and report is not there


@dataclass(frozen=True, slots=True)
class CauseError:
    """How far off the share of one cause is, over the jobs in which it occurs."""

    cause: str
    points: Spread


@dataclass(frozen=True, slots=True)
class Worst:
    """A job and the cause that is furthest off in it."""

    job: str
    cause: str
    points: float  # report - truth


@dataclass(frozen=True, slots=True)
class Attribution:
    """Errors of idle time by cause and of busy time."""

    points: Spread  # per job, the cause that is furthest off
    within: Rate  # jobs whose every cause is within WITHIN_POINTS
    by_cause: tuple[CauseError, ...]
    busy_points: Spread
    worst: tuple[Worst, ...]
    without: int  # jobs whose report has no attribution


def score_attribution(outcomes: Sequence[Outcome]) -> Attribution:
    worst: list[Worst] = []
    by_cause: dict[str, list[float]] = {}
    busy = []
    for outcome in outcomes:
        if outcome.busy_share is not None:
            busy.append(100 * (outcome.busy_share - outcome.truth.busy_share))
        if outcome.idle_by_cause is None:
            continue
        errors = errors_of(outcome.truth.idle_by_cause, outcome.idle_by_cause)
        for cause, points in errors.items():
            by_cause.setdefault(cause, []).append(points)
        cause, points = max(errors.items(), key=lambda item: abs(item[1]), default=("none", 0.0))
        worst.append(Worst(outcome.truth.name, cause, points))
    worst.sort(key=lambda job: -abs(job.points))
    return Attribution(
        points=Spread.of([job.points for job in worst]),
        within=Rate.among([abs(job.points) <= WITHIN_POINTS for job in worst]),
        by_cause=tuple(CauseError(cause, Spread.of(by_cause[cause])) for cause in sorted(by_cause)),
        busy_points=Spread.of(busy),
        worst=tuple(worst[:NAMED]),
        without=sum(outcome.idle_by_cause is None for outcome in outcomes),
    )


def errors_of(truth: Mapping[str, float], said: Mapping[str, float]) -> dict[str, float]:
    """Return report - truth in points for each cause that either of them has."""
    pairs = {cause: (truth.get(cause, 0.0), said.get(cause, 0.0)) for cause in sorted(truth.keys() | said.keys())}
    return {cause: 100 * (b - a) for cause, (a, b) in pairs.items() if 100 * max(a, b) >= SEEN_POINTS}
