"""A job that was watched and traced: its log knows the whole run, its trace a few steps in every detail.

The log prices what concerns loader and pauses, of which a few steps hold little. All else changes the own part of a
step, by as much as it changes the replayed steps without their waits, and the loader's loop is played with that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from whyidle.model.finding import Edit, Estimate, Predicted
from whyidle.replay.assumptions import assumed
from whyidle.replay.interval import WIDTH, model_error
from whyidle.replay.pricer import Replayed
from whyidle.replay.watched import Looped, predicted

PAUSES = ("data_wait", "checkpoint", "evaluation")
ALONE = Edit("scale_host", {"cause": ",".join(PAUSES)}, {"factor": 0.0})  # leaves the step's own work
STEP = 0.01  # of the step: what the log and a replay of a few of its steps repeat no better (judgement)


@dataclass(frozen=True)
class Fused:
    """The price of edits by both."""

    log: Looped
    traced: Replayed

    @property
    def mean_s(self) -> float:
        return self.log.mean_s

    @cached_property
    def own_s(self) -> float:
        """Return the replayed step without waits and pauses, s."""
        alone = self.traced.price((ALONE,))
        return self.traced.mean_s if isinstance(alone, str) else alone.step_time_mean_s.likely

    def why_not(self, rule: str) -> str:
        return self.traced.why_not(rule)

    def price(self, edits: Sequence[Edit]) -> Predicted | str:
        loads, works = parted(edits)
        if not works:
            return self.log.price(loads)
        if any(edit.kind == "larger_batch" for edit in works):  # which makes the making of batches longer, too
            return self.as_in_the_run(self.traced.price(edits))
        traced = self.traced.price((*works, ALONE))
        if isinstance(traced, str):
            return traced
        job, ratio = self.log.job, traced.step_time_mean_s.likely / self.own_s
        changed = replace(job, own=job.own * ratio, took=job.took * ratio)
        priced = predicted(changed, loads, self.mean_s) if loads else self.as_it_is(changed.play().mean)
        if isinstance(priced, str):
            return priced
        width = WIDTH * model_error(works) * job.own * abs(1 - ratio)
        return widened(priced, self.mean_s, width, assumed(works))

    def as_it_is(self, mean: float) -> Predicted:
        """Return the run with this mean step, its median as far from the mean as it is now."""
        median = mean * self.log.median_s / self.mean_s
        return Predicted(
            Estimate(median * (1 - STEP), median, median * (1 + STEP)),
            Estimate(mean * (1 - STEP), mean, mean * (1 + STEP)),
            Estimate(1.0, 1.0, 1.0),
            source="replay",
        )

    def as_in_the_run(self, traced: Predicted | str) -> Predicted | str:
        """Return what the replayed steps do, in steps of the run."""
        if isinstance(traced, str):
            return traced
        ratio = self.mean_s / self.traced.mean_s
        return replace(
            traced,
            step_time_s=scaled(traced.step_time_s, ratio),
            step_time_mean_s=scaled(traced.step_time_mean_s, ratio),
        )

    def unsure(self, edits: Sequence[Edit]) -> float:
        loads, works = parted(edits)
        return max(self.log.unsure(loads) if loads else 0.0, WIDTH * model_error(works))


def parted(edits: Sequence[Edit]) -> tuple[tuple[Edit, ...], tuple[Edit, ...]]:
    """Return the edits that a log prices, of its loader and its pauses, and the others."""
    loads = tuple(edit for edit in edits if of_log(edit))
    workers = any("workers" in edit.coefficients for edit in loads)
    works = tuple(edit for edit in edits if not of_log(edit))
    return loads, tuple(edit for edit in works if not (workers and edit.selector.get("cause") == "host"))


def of_log(edit: Edit) -> bool:
    """Say whether an edit is about the loader or a pause."""
    return edit.selector.get("cause") in PAUSES or edit.selector.get("range") in PAUSES


def scaled(estimate: Estimate, by: float) -> Estimate:
    return Estimate(estimate.low * by, estimate.likely * by, estimate.high * by)


def widened(priced: Predicted, before: float, width: float, rests_on: tuple[str, ...]) -> Predicted:
    """Return a prediction with so much more to each side of its step, s."""
    mean, median = (
        Estimate(max(one.low - width, 0.0), one.likely, one.high + width)
        for one in (priced.step_time_mean_s, priced.step_time_s)
    )
    return replace(
        priced,
        step_time_s=median,
        step_time_mean_s=mean,
        speedup=Estimate(before / mean.high, before / mean.likely, before / max(mean.low, mean.likely / 10)),
        rests_on=tuple(dict.fromkeys((*priced.rests_on, *rests_on))),
    )
