"""What edits are worth: one question, whatever evidence answers it; and the answer of a replay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from whyidle.model.finding import Edit, Estimate, Predicted
from whyidle.replay.assumptions import assumed
from whyidle.replay.batch import APART
from whyidle.replay.edits import once
from whyidle.replay.interval import WIDTH, around, model_error, spread
from whyidle.replay.outcome import Outcome
from whyidle.replay.replay import Replay
from whyidle.replay.select import replayable

LEFT = "its time lies outside of the steps that were replayed"
NOTHING_LEFT = "it would leave nothing of the step, which no job can do"
OVER = "is over once training has begun: no step to come is faster without it"
KEEPS_UP = "the loader keeps up, which nobody saw since it was never waited for"
# Of the step: the pace of a loader that was never waited for, taken as anything from that of the steps to 20 times as
# fast, all ratios alike (judgement), is slower than this with a probability of 10%: the end of an interval of 80%.
UNSEEN = 20**-0.1


class Pricer(Protocol):
    """Says what a job does once some edits are made."""

    @property
    def mean_s(self) -> float:
        """Return the mean step as it is, s."""

    def price(self, edits: Sequence[Edit]) -> Predicted | str:
        """Return what the job does with these edits made, or why that cannot be told."""

    def why_not(self, rule: str) -> str:
        """Return why this evidence does not price the fixes of a rule; empty if it may."""

    def unsure(self, edits: Sequence[Edit]) -> float:
        """Return half the width of the interval of what these edits save, as a part of that."""


class Replayed:
    """The price of edits by replay of a trace."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay

    @property
    def mean_s(self) -> float:
        return self.replay.base.mean_ns / 1e9

    def price(self, edits: Sequence[Edit]) -> Predicted | str:
        if not edits:
            return "what it changes is not known"
        for edit in edits:
            if not replayable(edit):
                return "a trace has no timeline of what it changes"
        edits = once(edits)
        grows = any(edit.kind == "larger_batch" for edit in edits)
        if not grows and not self.replay.holds(edits):
            return LEFT
        after = self.replay.play(edits)
        if min(after.mean_ns, after.median_ns, self.replay.base.mean_ns) <= 0:
            return NOTHING_LEFT
        worse = tuple(slower(edit) for edit in edits)
        unsure = abs(self.replay.play(worse).mean_ns / after.mean_ns - 1) if worse != tuple(edits) else 0.0
        if grows and unsure > APART - 1:
            return "how long kernels take with more work does not show at this batch size"
        return self.predicted(after, edits, unsure)

    def why_not(self, rule: str) -> str:
        return OVER if rule == "pause.startup" else ""

    def unsure(self, edits: Sequence[Edit]) -> float:
        return WIDTH * model_error(edits)

    def predicted(self, after: Outcome, edits: Sequence[Edit], unsure: float = 0.0) -> Predicted:
        """Return the outcome with its ranges; `unsure` is a part of the step that is not known."""
        before = self.replay.base
        varies, model = math.hypot(spread(before, after), unsure), model_error(edits)
        mean = around(after.mean_ns / 1e9, before.mean_ns / 1e9, varies, model)
        median = around(after.median_ns / 1e9, before.median_ns / 1e9, varies, model)
        now = before.mean_ns / 1e9
        unseen = self.replay.loader_unseen and mean.likely < UNSEEN * now
        if unseen:
            mean = replace(mean, high=max(mean.high, UNSEEN * now))
            median = replace(median, high=max(median.high, UNSEEN * before.median_ns / 1e9))
        return Predicted(
            step_time_s=median,
            step_time_mean_s=mean,
            speedup=Estimate(now / mean.high, now / mean.likely, now / mean.low),
            per="sample" if after.scale != 1.0 else "step",
            source="replay",
            rests_on=(*assumed(edits), *((KEEPS_UP,) if unseen else ())),
            gpu_idle_share=after.gpu_idle_share,
        )


def slower(edit: Edit) -> Edit:
    """Return an edit that makes work longer by as much as it may well: other edits as they are.

    With a larger batch kernels take longer from the first sample on; what is assumed to slow the host down does so
    twice as much (workers beside it: 1.08 and 1.19 in two recordings).
    """
    factor = edit.coefficients.get("factor", 0.0)
    if edit.kind == "larger_batch":
        return replace(edit, coefficients={**edit.coefficients, "fixed": 0.0})
    if edit.kind == "scale_host" and factor > 1 and edit.coefficients.get("prior"):
        return replace(edit, coefficients={**edit.coefficients, "factor": 2 * factor - 1})
    return edit
