"""Which of the gains that BEFORE's report predicts came true: what was changed, and what that brought."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from whyidle.compare.arms import Repeat
from whyidle.compare.confounders import ABSENT
from whyidle.compare.verdict import Judged
from whyidle.judge import judge
from whyidle.model.comparison import Confounder, Promise
from whyidle.model.finding import Finding, Fix, Predicted

LESS: Final = 0.5  # of what a finding lost before: what is left then is no longer the same problem (judgement)
SETTING: Final = re.compile(r"\b(\w+)\s*=\s*([\w.]+)")  # in what a fix says to type: DataLoader(..., num_workers=4)


def given(before: Repeat) -> Repeat:
    """Return BEFORE with what its fixes are predicted to be worth."""
    return replace(before, report=judge(before.run, measured=before.measured))


def kept(before: Repeat, after: Repeat, differs: Sequence[Confounder], found: Judged) -> tuple[Promise, ...]:
    """Return what was predicted of each finding of BEFORE, and of those together that were made.

    A range of a prediction holds the measured speedup with 80%, the measured range the true one with 95%: they agree
    where they meet. A measured range that holds 1 as well shows nothing. What was made together with others has no
    measured value of its own.
    """
    changed = [each for each in differs if each.weight == "noted"]
    asked = [(finding, _fix(finding, changed)) for finding in before.report.findings if finding.fixes]
    seen = [(finding.rule, fix, *_made(finding, fix, after, changed)) for finding, fix in asked]
    made = list(dict.fromkeys(rule for rule, _, is_made, _ in seen if is_made))
    promises = [
        _scored(
            Promise(rule, fix.title, is_made, None, None, None, why, _beside(fix, changed) if made == [rule] else ()),
            fix.predicted,
            found if made == [rule] else None,
        )
        for rule, fix, is_made, why in seen
    ]
    if len(made) > 1:
        together = Promise(" + ".join(made), "all that was made, together", True, None, None, None)
        promises.append(_scored(together, _predicted(before, made), found))
    return tuple(promises)


def _predicted(before: Repeat, rules: Sequence[str]) -> Predicted | None:
    """Return what the fixes of these findings were worth together."""
    prediction = judge(before.run, what_if=rules, measured=before.measured).prediction
    asked = next(iter(prediction.asked), None) if prediction is not None else None
    return None if asked is None else asked.predicted


def _fix(finding: Finding, changed: Sequence[Confounder]) -> Fix:
    """Return the fix that was made, as far as settings show it, else the first that is predicted."""
    asks = [fix for fix in finding.fixes if _followed(fix, changed)]
    predicted = [fix for fix in finding.fixes if fix.predicted is not None]
    return next(iter([*asks, *predicted, *finding.fixes]))


def _followed(fix: Fix, changed: Sequence[Confounder]) -> list[str]:
    """Return the settings that were changed as a fix asks: to what it says, or a number in that direction."""
    asked = dict(SETTING.findall(fix.change))
    return [each.name for each in changed if each.name in asked and _towards(each, asked[each.name])]


def _beside(fix: Fix, changed: Sequence[Confounder]) -> tuple[str, ...]:
    """Return the settings that were changed besides a fix's own; what one of these brings along was not set before."""
    own = dict(SETTING.findall(fix.change))
    return tuple(
        each.name
        for each in changed
        if each.name not in own and each.name != "command" and ABSENT not in (each.before, each.after)
    )


def _towards(changed: Confounder, asked: str) -> bool:
    try:
        had, has, wanted = float(changed.before), float(changed.after), float(asked)
    except ValueError:
        return changed.after == asked
    return (has - had) * (wanted - had) > 0


def _made(finding: Finding, fix: Fix, after: Repeat, changed: Sequence[Confounder]) -> tuple[bool | None, str]:
    """Return whether a fix is seen in AFTER, and by what."""
    named = _followed(fix, changed)
    if named:
        return True, f"{', '.join(named)} {'was' if len(named) == 1 else 'were'} changed"
    still = next((each for each in after.report.findings if each.rule == finding.rule), None)
    if still is not None:
        had, has = finding.lost_share, still.lost_share
        if had is None or has is None:
            return None, "still found in AFTER"
        lost = f"it loses {had:.0%} of BEFORE's time and {has:.0%} of AFTER's"
        return has < LESS * had, lost
    asked = {unknown.rule for unknown in after.report.unknown}
    if finding.rule in asked or not (after.measured.analyses or after.measured.watched.logs):
        return None, "AFTER's recording does not tell"
    if finding.severity == "low":
        return None, "no longer found in AFTER, which is little more than noise"
    return True, "no longer found in AFTER"


def _scored(promise: Promise, predicted: Predicted | None, found: Judged | None) -> Promise:
    """Return a promise with what was predicted, and beside what was measured, where that is its own."""
    if predicted is None:
        return promise
    promise = replace(promise, predicted=predicted.speedup)
    if found is None or found.throughput is None:
        return promise
    if predicted.per != found.per:
        return replace(
            promise, measured=found.throughput, why=f"predicted per {predicted.per}, measured per {found.per}"
        )
    low, high = predicted.speedup.low, predicted.speedup.high
    meets = low <= found.throughput.high and found.throughput.low <= high
    if meets and found.throughput.low <= 1:
        return replace(promise, measured=found.throughput, why="measured too vaguely: it may have brought nothing")
    return replace(promise, measured=found.throughput, came_true=meets)
