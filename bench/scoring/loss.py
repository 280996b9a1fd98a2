"""Does a finding lose as much as its fault costs? `lost_share` of the right finding against the severity reached.

Jobs with one fault only: two faults share time. In points of the step; bias above zero: we promise too much.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scoring.alike import right
from scoring.rates import Spread
from scoring.records import Outcome


@dataclass(frozen=True, slots=True)
class CauseLoss:
    """The error for one injected cause."""

    cause: str
    points: Spread


@dataclass(frozen=True, slots=True)
class Loss:
    """The error over all causes, and for each."""

    points: Spread
    by_cause: tuple[CauseLoss, ...]


def score_loss(outcomes: Iterable[Outcome]) -> Loss:
    by_cause: dict[str, list[float]] = {}
    for outcome in outcomes:
        error = error_of(outcome)
        if error is not None:
            by_cause.setdefault(outcome.truth.faults[0].id, []).append(error)
    return Loss(
        Spread.of([error for errors in by_cause.values() for error in errors]),
        tuple(CauseLoss(cause, Spread.of(by_cause[cause])) for cause in sorted(by_cause)),
    )


def error_of(outcome: Outcome) -> float | None:
    """Return what the first right finding says is lost, less what the fault costs; None where there is none."""
    fault = outcome.truth.single
    if fault is None:
        return None
    for finding in outcome.ranked:
        if finding.lost_share is not None and right(finding.rule, (fault.id,), strict=False):
            return 100 * (finding.lost_share - fault.severity)
    return None
