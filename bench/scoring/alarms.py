"""What is found where nothing is wrong: on healthy jobs, and on controls that only look ill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scoring.rates import Rate
from scoring.records import Outcome, Said


@dataclass(frozen=True, slots=True)
class Alarm:
    """One finding that should not be there."""

    job: str
    rule: str
    severity: str
    confidence: float
    lost_share: float | None


@dataclass(frozen=True, slots=True)
class Alarms:
    """Jobs of one kind with a finding of each sort. High and medium count whatever the confidence."""

    kind: str
    high: Rate
    medium: Rate
    claim: Rate  # confidence 0.5 or more, whatever the severity
    failed: int
    listed: tuple[Alarm, ...]


def score_alarms(outcomes: Sequence[Outcome]) -> tuple[Alarms, ...]:
    healthy = [outcome for outcome in outcomes if outcome.truth.healthy]
    controls = [outcome for outcome in outcomes if outcome.truth.harmless and not outcome.truth.healthy]
    return tuple(_alarms(kind, jobs) for kind, jobs in (("healthy", healthy), ("control", controls)))


def _alarms(kind: str, outcomes: Sequence[Outcome]) -> Alarms:
    def jobs_with(severity: str) -> Rate:
        return Rate.among([any(f.severity == severity for f in wrong(outcome)) for outcome in outcomes])

    return Alarms(
        kind=kind,
        high=jobs_with("high"),
        medium=jobs_with("medium"),
        claim=Rate.among([any(finding.claim for finding in wrong(outcome)) for outcome in outcomes]),
        failed=sum(outcome.failure is not None for outcome in outcomes),
        listed=tuple(_listed(outcomes)),
    )


def wrong(outcome: Outcome) -> list[Said]:
    """Return the findings by which the job would not gain, as far as its truth knows."""
    return [finding for finding in outcome.findings if not outcome.is_right(finding, strict=False)]


def _listed(outcomes: Iterable[Outcome]) -> Iterable[Alarm]:
    for outcome in outcomes:
        for f in wrong(outcome):
            if f.grave or f.claim:
                yield Alarm(outcome.truth.name, f.rule, f.severity, f.confidence, f.lost_share)
