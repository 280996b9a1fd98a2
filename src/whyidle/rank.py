"""The order in which to fix things: saving times probability over effort, the largest first.

The saving is what was predicted, where it was, else what is lost (`Finding.score`). Savings overlap, so what fixes are
worth together is found by making one after the other: the best first, then the best of the rest on top of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from whyidle.model.finding import EFFORT_COST, MEDIUM, Applied, Asked, Edit, Estimate, Finding, Fix, Predicted
from whyidle.replay.interval import ranged
from whyidle.replay.pricer import Pricer

LEAST: Final = 0.01  # of the step as it is: a fix that adds less is not worth a line (judgement)
ENOUGH: Final = 0.5  # of the best fix of a finding: one that its rule prefers is worth no less (judgement)
MOST: Final = 6  # fixes of a sequence: nobody plans further ahead


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in order of what to do first; equal ones by loss, then by id, so that reports are stable.

    A none.* finding says that there is nothing to do: it stays only where nothing at medium or above was found.
    """
    ordered = sorted(findings, key=lambda f: (-_worth(f), -(f.lost_share or 0.0), f.rule))
    if any(finding.severity != "low" for finding in ordered):
        ordered = [finding for finding in ordered if not finding.rule.startswith("none.")]
    return tuple(ordered)


def _worth(finding: Finding) -> float:
    """Return its score; where nothing tells what is lost, that of the least that its severity stands for."""
    unknown = finding.lost_share is None and finding.severity == "medium" and not finding.saved_share
    return replace(finding, lost_share=MEDIUM).score if unknown else finding.score


def priced(findings: Iterable[Finding], pricer: Pricer) -> tuple[tuple[Finding, ...], dict[str, str]]:
    """Return findings with what each of their fixes is worth alone, that to make first; of rules without one why."""
    found, why = [], {}
    for finding in findings:
        never = pricer.why_not(finding.rule)
        worth = [never or pricer.price(fix.edits) for fix in finding.fixes]
        fixes = [
            replace(fix, predicted=None if isinstance(one, str) else one)
            for fix, one in zip(finding.fixes, worth, strict=True)
        ]
        if fixes and not any(fix.predicted for fix in fixes):
            why[finding.rule] = next(one for one in worth if isinstance(one, str))
        first = best(replace(finding, fixes=tuple(fixes)), pricer.mean_s)
        in_order = [fix for fix in fixes if fix is first] + [fix for fix in fixes if fix is not first]
        found.append(replace(finding, fixes=tuple(in_order)))
    return tuple(found), why


@dataclass(frozen=True, slots=True)
class Choice:
    """A fix that may be made, and how much its saving counts."""

    finding: Finding
    fix: Fix

    @property
    def weight(self) -> float:
        return self.finding.confidence * self.fix.applies / EFFORT_COST[self.fix.effort]


@dataclass(frozen=True, slots=True)
class OnTop:
    """What a fix adds to those that are made."""

    choice: Choice
    saved: float  # s of the mean step
    predicted: Predicted


def sequence(findings: Sequence[Finding], pricer: Pricer) -> tuple[Applied, ...]:
    """Return the order in which to make fixes, each on top of those before it, as long as one adds something."""
    left = [Choice(finding, fix) for finding in findings if (fix := best(finding, pricer.mean_s)) is not None]
    made: list[Edit] = []
    chosen: list[Applied] = []
    now, width = pricer.mean_s, 0.0
    tried = on_top(left, made, now, pricer)
    while tried and len(chosen) < MOST:
        first = max(tried, key=lambda one: one.saved * one.choice.weight)
        made += first.choice.fix.edits
        left.remove(first.choice)
        now = first.predicted.step_time_mean_s.likely
        width = math.hypot(width, pricer.unsure(first.choice.fix.edits) * first.saved)
        tried = on_top(left, made, now, pricer)
        then = max(tried, key=lambda one: one.saved).choice.finding.rule if tried else ""
        predicted = within(first.predicted, pricer.mean_s, width, pricer.unsure(made)) if chosen else first.predicted
        share = first.saved / pricer.mean_s
        chosen.append(Applied(first.choice.finding.rule, first.choice.fix.title, predicted, share, then))
    return tuple(chosen)


def on_top(choices: Iterable[Choice], made: Sequence[Edit], now: float, pricer: Pricer) -> list[OnTop]:
    """Return the fixes that save something on top of those made."""
    found = []
    for choice in choices:
        predicted = pricer.price((*made, *choice.fix.edits)) if made else choice.fix.predicted
        if isinstance(predicted, Predicted):
            saved = now - predicted.step_time_mean_s.likely
            if saved >= LEAST * pricer.mean_s:
                found.append(OnTop(choice, saved, predicted))
    return found


def within(predicted: Predicted, before: float, width: float, model: float) -> Predicted:
    """Return what several fixes bring with a range in which each is as unsure as by itself.

    Args:
        predicted: with the range that the surest and the least sure of them share.
        before: mean step without them, s.
        width: half the width that what each adds comes to, s.
        model: what of the range is of that kind now, half its width as a part of the saving; how steps differ stays.
    """
    mean = predicted.step_time_mean_s
    rest = max(((mean.high - mean.low) / 2) ** 2 - (model * (before - mean.likely)) ** 2, 0.0)
    half = math.hypot(width, math.sqrt(rest))
    mean = ranged(mean.likely, half)
    median = ranged(predicted.step_time_s.likely, half * predicted.step_time_s.likely / mean.likely)
    speedup = Estimate(before / mean.high, before / mean.likely, before / mean.low)
    return replace(predicted, step_time_s=median, step_time_mean_s=mean, speedup=speedup)


def best(finding: Finding, before: float) -> Fix | None:
    """Return the fix of a finding to make; None if none is predicted to save anything.

    That is the first that is worth at least half as much for its effort as any: its rule names the safest first. A
    larger batch changes what is learned: it comes after all that do not.
    """
    gains = [(fix, gain(fix, before)) for fix in finding.fixes if gain(fix, before) > 0]
    same = [(fix, one) for fix, one in gains if fix.predicted and fix.predicted.per == "step"] or gains
    least = ENOUGH * max((one for _, one in same), default=0.0)
    return next((fix for fix, one in same if one >= least), None)


def gain(fix: Fix, before: float) -> float:
    """Return what a fix saves of the mean step for its effort, s; 0 where that is not known."""
    if fix.predicted is None:
        return 0.0
    return (before - fix.predicted.step_time_mean_s.likely) * fix.applies / EFFORT_COST[fix.effort]


def asked(rules: Sequence[str], findings: Sequence[Finding], pricer: Pricer) -> Asked:
    """Return what the best fixes of these rules' findings are worth together, and what of them is not in that."""
    missing = [rule for rule in rules if all(finding.rule != rule for finding in findings)]
    why = [f"not found in this recording: {', '.join(missing)}"] if missing else []
    edits: list[Edit] = []
    for finding in (finding for rule in rules for finding in findings if finding.rule == rule):
        fix = best(finding, pricer.mean_s) or next(iter(finding.fixes), None)
        alone = pricer.why_not(finding.rule) or pricer.price(fix.edits if fix else ())
        if isinstance(alone, str):
            why.append(f"{finding.rule} is not counted: {alone}" if len(rules) > 1 else alone)
        elif fix:
            edits += fix.edits
    predicted = pricer.price(edits) if edits else ""
    if isinstance(predicted, str):
        return Asked(tuple(rules), None, "; ".join(why) or predicted)
    return Asked(tuple(rules), predicted, "; ".join(why))
