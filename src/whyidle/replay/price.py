"""What edits are worth, by whatever evidence there is: one question to a replay, or to the model of a loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from whyidle.model.finding import Edit, Estimate, Predicted
from whyidle.replay import Replay
from whyidle.replay.assumptions import assumed
from whyidle.replay.interval import around, model_error, spread
from whyidle.replay.outcome import Outcome
from whyidle.replay.select import replayable

LEFT = "its time lies outside of the steps that were replayed"


class Pricer(Protocol):
    """Says what a job does once some edits are made."""

    @property
    def mean_s(self) -> float:
        """Return the mean step as it is, s."""

    def price(self, edits: Sequence[Edit]) -> Predicted | str:
        """Return what the job does with these edits made, or why that cannot be told."""


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
        if not self.replay.all_steps and not self.replay.touches(edits):
            return LEFT
        after = self.replay.play(edits)
        return self.predicted(after, edits)

    def predicted(self, after: Outcome, edits: Sequence[Edit]) -> Predicted:
        before = self.replay.base
        varies, model = spread(before, after), model_error(edits)
        mean = around(after.mean_ns / 1e9, before.mean_ns / 1e9, varies, model)
        median = around(after.median_ns / 1e9, before.median_ns / 1e9, varies, model)
        now = before.mean_ns / 1e9
        return Predicted(
            step_time_s=median,
            step_time_mean_s=mean,
            speedup=Estimate(now / mean.high, now / mean.likely, now / max(mean.low, 1e-9)),
            per="sample" if after.scale != 1.0 else "step",
            source="replay",
            rests_on=assumed(edits),
            gpu_idle_share=after.gpu_idle_share,
        )
