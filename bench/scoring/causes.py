"""Is each cause found where it is, and only there?

Recall counts jobs: of those with the fault at 5% or more, where is it claimed (confidence 0.5 or more). Precision
counts claims over all jobs: a claim of what is not there is wrong. Both count claims at any severity. Accepted numbers
take what `alike` allows for a cause as a claim of it where it was injected, and a claim of what the job would gain
by besides (`also` in its truth, from a re-run) as right, as far as it is worth what it promises. A wrong claim counts
against the cause that it names and no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scoring.alike import answers, right
from scoring.rates import Rate, f1
from scoring.records import Outcome, Said


@dataclass(frozen=True, slots=True)
class Found:
    """Precision, recall and what they make together."""

    precision: Rate
    recall: Rate
    f1: float | None


@dataclass(frozen=True, slots=True)
class CauseScore:
    """One cause, by its id alone and with the answers that are accepted for it."""

    cause: str
    strict: Found
    accepted: Found


@dataclass(frozen=True, slots=True)
class Confusion:
    """A fault for which something else was said."""

    injected: str
    said: str
    jobs: int


def score_causes(outcomes: Sequence[Outcome]) -> tuple[CauseScore, ...]:
    """Return a score for each cause that was injected or wrongly claimed."""
    injected = {fault.id for outcome in outcomes for fault in outcome.truth.faults}
    claimed = {said.rule for outcome in outcomes for said in claimed_by(outcome)}
    return tuple(
        CauseScore(cause, _found(outcomes, cause, strict=True), _found(outcomes, cause, strict=False))
        for cause in sorted(injected | claimed)
    )


def score_all_causes(outcomes: Sequence[Outcome]) -> CauseScore:
    """Return the score over all causes, each fault and each claim counted once."""

    def found(*, strict: bool) -> Found:
        recall = [claims(outcome, fault.id, strict=strict) for outcome in outcomes for fault in outcome.truth.counted]
        precision = [outcome.is_right(said, strict=strict) for outcome in outcomes for said in claimed_by(outcome)]
        return _together(Rate.among(precision), Rate.among(recall))

    return CauseScore("all causes", found(strict=True), found(strict=False))


def _found(outcomes: Iterable[Outcome], cause: str, *, strict: bool) -> Found:
    recall, precision = [], []
    for outcome in outcomes:
        if any(fault.id == cause for fault in outcome.truth.counted):
            recall.append(claims(outcome, cause, strict=strict))
        injected = any(fault.id == cause for fault in outcome.truth.faults)
        instead = answers(cause) if injected and not strict else frozenset()
        precision += [
            outcome.is_right(said, strict=strict)
            for said in claimed_by(outcome)
            if said.rule == cause or said.rule in instead
        ]
    return _together(Rate.among(precision), Rate.among(recall))


def _together(precision: Rate, recall: Rate) -> Found:
    return Found(precision, recall, f1(precision, recall))


def claims(outcome: Outcome, cause: str, *, strict: bool) -> bool:
    """Say whether a report claims a cause."""
    return any(right(claim.rule, (cause,), strict=strict) for claim in outcome.claims)


def claimed_by(outcome: Outcome) -> tuple[Said, ...]:
    """Return the claims of a report, each rule once however often it is found."""
    first: dict[str, Said] = {}
    for finding in outcome.findings:
        if finding.claim:
            first.setdefault(finding.rule, finding)
    return tuple(first.values())


def missed(outcomes: Iterable[Outcome]) -> tuple[Confusion, ...]:
    """Return what is said instead of faults that nobody claims, the most frequent first."""
    counted: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        for fault in outcome.truth.counted:
            if not claims(outcome, fault.id, strict=False):
                counted[fault.id, _instead(outcome, fault.id)] += 1
    return _most(counted)


def false_claims(outcomes: Iterable[Outcome]) -> tuple[Confusion, ...]:
    """Return the wrong claims and what was injected instead, the most frequent first."""
    counted: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        injected = [fault.id for fault in outcome.truth.faults]
        there = " + ".join(injected) or outcome.truth.control or "healthy"
        counted.update((there, said.rule) for said in claimed_by(outcome) if not outcome.is_right(said, strict=False))
    return _most(counted)


def _most(counted: Counter[tuple[str, str]]) -> tuple[Confusion, ...]:
    return tuple(Confusion(*pair, jobs) for pair, jobs in sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _instead(outcome: Outcome, cause: str) -> str:
    if outcome.failure:
        return outcome.failure
    if not outcome.findings:
        return "nothing"
    first = outcome.findings[0]
    hedged = [finding for finding in outcome.findings if right(finding.rule, (cause,), strict=False)]
    if hedged:
        return f"{hedged[0].rule}, as a suggestion only"
    return first.rule if first.claim else f"{first.rule}, as a suggestion"
