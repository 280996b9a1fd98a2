"""What edits are worth, by whatever evidence there is: one question to a replay, or to the model of a loader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from whyidle.measure import Measured
from whyidle.model.finding import Edit, Estimate, Predicted, Prediction
from whyidle.replay.assumptions import assumed
from whyidle.replay.batch import APART
from whyidle.replay.critical import critical_path
from whyidle.replay.gates import identity_error
from whyidle.replay.interval import WIDTH, around, model_error, spread
from whyidle.replay.outcome import Outcome
from whyidle.replay.replay import Replay, replay_of
from whyidle.replay.select import replayable
from whyidle.replay.watched import of_log

LEFT = "its time lies outside of the steps that were replayed"
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


def pricer(measured: Measured) -> tuple[Pricer | None, Prediction]:
    """Return who knows what fixes are worth, and from what; None where nobody does, and why.

    The log of a whole run tells of its loader what a trace of a few steps cannot: where there is no trace, and no
    other way.
    """
    if not measured.analyses and measured.watched.logs:
        return of_log(measured)
    replay = replay_of(measured)
    if replay.refused:
        return None, Prediction(refused=replay.refused)
    base = replay.base
    first = replay.graphs[0]
    return Replayed(replay), Prediction(
        source=replay.source,
        steps=first.numbers,
        ranks=tuple(g.rank for g in replay.graphs if g.rank is not None),
        local=replay.local,
        step_time_s=base.median_ns / 1e9,
        step_time_mean_s=base.mean_ns / 1e9,
        identity_error=identity_error(replay),
        queue=first.queue.length,
        critical_path=critical_path(replay),
    )


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
        grows = any(edit.kind == "larger_batch" for edit in edits)
        if not self.replay.all_steps and not grows and not self.replay.touches(edits):
            return LEFT
        after = self.replay.play(edits)
        unsure = abs(self.replay.play([slower(edit) for edit in edits]).mean_ns / after.mean_ns - 1) if grows else 0.0
        if unsure > APART - 1:
            return "how long kernels take with more work does not show at this batch size"
        return self.predicted(after, edits, unsure)

    def why_not(self, rule: str) -> str:  # noqa: ARG002 - what a trace has no timeline of, edits tell
        return ""

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
            speedup=Estimate(now / mean.high, now / mean.likely, now / max(mean.low, 1e-9)),
            per="sample" if after.scale != 1.0 else "step",
            source="replay",
            rests_on=(*assumed(edits), *((KEEPS_UP,) if unseen else ())),
            gpu_idle_share=after.gpu_idle_share,
        )


def slower(edit: Edit) -> Edit:
    """Return a larger batch with kernels that take longer from the first sample on; other edits as they are."""
    if edit.kind != "larger_batch":
        return edit
    return replace(edit, coefficients={**edit.coefficients, "fixed": 0.0})
