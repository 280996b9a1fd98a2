"""Does what the reader sees first name the cause? All findings count, suggestions too: the reader sees them as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from scoring.alike import right
from scoring.rates import Rate
from scoring.records import LEAST_SEVERITY, MAIN_SEVERITY, Outcome, at_least

AS_GOOD = 0.8  # of the fault: another change that saves as much is as good an answer


@dataclass(frozen=True, slots=True)
class TopScore:
    """How often the cause is the first finding, or among the first three."""

    label: str
    top1: Rate
    top1_accepted: Rate
    top3: Rate
    top3_accepted: Rate


@dataclass(frozen=True, slots=True)
class PairScore:
    """Jobs with two faults, both at 5% or more: the first finding names one of them; three findings name both."""

    top1: Rate
    top1_accepted: Rate
    both_in_top3: Rate
    both_in_top3_accepted: Rate
    left_out: int  # pairs in which one fault came out smaller


@dataclass(frozen=True, slots=True)
class Order:
    """Over jobs with one fault: all at MAIN_SEVERITY or more, then by severity asked for (all), by family (from 5%)."""

    main: TopScore
    by_severity: tuple[TopScore, ...]
    by_family: tuple[TopScore, ...]
    pairs: PairScore


def score_order(outcomes: Sequence[Outcome]) -> Order:
    single = [outcome for outcome in outcomes if outcome.truth.single]
    counted = [outcome for outcome in single if outcome.truth.counted]
    main = [outcome for outcome in single if at_least(outcome.truth.faults[0].severity, MAIN_SEVERITY)]
    return Order(
        main=_top(f"{MAIN_SEVERITY:.0%} and more", main),
        by_severity=_by(single, lambda outcome: f"{outcome.truth.faults[0].asked:6.1%}"),
        by_family=_by(counted, lambda outcome: outcome.truth.family),
        pairs=_pairs(outcomes),
    )


def _by(outcomes: Iterable[Outcome], key: Callable[[Outcome], str]) -> tuple[TopScore, ...]:
    return tuple(_top(label.strip(), list(jobs)) for label, jobs in groupby(sorted(outcomes, key=key), key))


def _top(label: str, outcomes: Sequence[Outcome]) -> TopScore:
    def rate(first: int, *, strict: bool) -> Rate:
        return Rate.among([among_first(outcome, first, strict=strict) for outcome in outcomes])

    return TopScore(label, rate(1, strict=True), rate(1, strict=False), rate(3, strict=True), rate(3, strict=False))


def among_first(outcome: Outcome, first: int, *, strict: bool) -> bool:
    """Say whether one of the first findings names a fault of the job."""
    return any(outcome.is_right(finding, strict=strict, worth=AS_GOOD) for finding in outcome.ranked[:first])


def all_in_first(outcome: Outcome, first: int, *, strict: bool) -> bool:
    """Say whether the first findings name every fault of the job."""
    rules = [finding.rule for finding in outcome.ranked[:first]]
    return all(any(right(rule, (fault.id,), strict=strict) for rule in rules) for fault in outcome.truth.faults)


def _pairs(outcomes: Iterable[Outcome]) -> PairScore:
    pairs = [outcome for outcome in outcomes if len(outcome.truth.faults) > 1]
    large = [o for o in pairs if all(at_least(fault.severity, LEAST_SEVERITY) for fault in o.truth.faults)]
    return PairScore(
        top1=Rate.among([among_first(pair, 1, strict=True) for pair in large]),
        top1_accepted=Rate.among([among_first(pair, 1, strict=False) for pair in large]),
        both_in_top3=Rate.among([all_in_first(pair, 3, strict=True) for pair in large]),
        both_in_top3_accepted=Rate.among([all_in_first(pair, 3, strict=False) for pair in large]),
        left_out=len(pairs) - len(large),
    )
