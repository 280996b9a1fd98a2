"""Does a run keep its limits: by itself, and beside the baseline of an earlier one.

A regression breaks its limit where it is larger than that and is there at all: the 95% interval excludes no change. An
interval that reaches further from the measured value than the limit is cannot judge it: then nobody can tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from whyidle.compare import starts
from whyidle.compare.bootstrap import LEAST, ratio_of_paired_means, vary_together
from whyidle.compare.pace import interval_of
from whyidle.compare.same_steps import ENOUGH
from whyidle.compare.setup import differences
from whyidle.errors import WhyIdleError
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64
from whyidle.model.gate import Baseline, Check, Gate, Limits, Outcome

GIVE: Final = "--max-step-time-regression 5% --baseline baseline.json, or --max-idle 20%"
SAVE: Final = "whyidle baseline save GOOD_RUN; then --baseline baseline.json"
OF_STEPS: Final = {"step_time_regression", "throughput_loss"}
WITHIN: Final = (
    "the interval knows how steps vary within a run, not how one start of the job differs from the next: "
    "`whyidle baseline save RUN --repeat RUN --repeat RUN` does"
)
APART: Final = "the baseline and the run hold other steps of their runs: a schedule may give these other work"
NOTHING: Final = 0.0005  # a change that rounds to 0.0%
SAME: Final = "no change"
FEW: Final = 20  # steps: of fewer nobody can say how many it takes (judgement)
REPEAT: Final = "--repeat RUN adds one, here and to `whyidle baseline save`"
RECORD: Final = "record it with `whyidle run -- python train.py`"
TRACED: Final = "record it on a GPU, with `whyidle run -- python train.py` without --no-trace"


def gate(run: Baseline, limits: Limits, baseline: Baseline | None = None, *, force: bool = False) -> Gate:
    """Hold a run to its limits.

    Args:
        run: what is kept of it.
        limits: what it may do at most.
        baseline: the earlier run, for limits that are relative to one.
        force: compare runs that are not of the same GPU, size and batch.

    Raises:
        WhyIdleError: there is no limit, one needs a baseline and there is none, or the baseline is of another setup.
    """
    if limits == Limits():
        raise WhyIdleError("there is no limit to check", GIVE)
    if baseline is None:
        if limits.relative:
            raise WhyIdleError("a limit on what grows or is lost needs a baseline", SAVE)
        return Gate(tuple(_absolute(run, limits)), run)
    found = tuple(differences(baseline, run))
    blocks = [each.message for each in found if each.weight == "blocks"]
    if blocks and not force:
        raise WhyIdleError(f"the baseline is of another setup: {'; '.join(blocks)}", f"{SAVE}; or --force")
    checks = (*_relative(run, limits, baseline), *_absolute(run, limits))
    broken = {check.limit for check in checks if check.outcome == "fail"}
    warnings = list(_unseen(run, limits, baseline, broken))
    of_steps = any(check.limit in OF_STEPS and check.measured is not None for check in checks)
    if of_steps and _sides(baseline, run).apart:
        warnings.append(APART)
    once = max(len(one.step_seconds) for one in (baseline, run)) == 1
    if once and broken & OF_STEPS:
        warnings.append(WITHIN)
    return Gate(checks, run, baseline, found, tuple(warnings))


def _relative(run: Baseline, limits: Limits, baseline: Baseline) -> Iterator[Check]:
    if limits.step_time_regression is not None:
        yield _step_time(run, baseline, limits.step_time_regression)
    if limits.throughput_loss is not None:
        yield _throughput(run, baseline, limits.throughput_loss)
    if limits.peak_memory_growth is not None:
        name, allowed = "peak_memory_growth", limits.peak_memory_growth
        if not baseline.peak_memory_bytes or not run.peak_memory_bytes:
            yield _missing(name, allowed, TRACED, in_baseline=baseline.peak_memory_bytes is None)
        else:
            growth = run.peak_memory_bytes / baseline.peak_memory_bytes - 1
            outcome: Outcome = "fail" if growth > allowed else "pass"
            said = f"{_percent(abs(growth))} {'less' if growth < 0 else 'more'} than the baseline"
            yield Check(name, allowed, outcome, Interval(growth, growth, growth), said)


def _absolute(run: Baseline, limits: Limits) -> Iterator[Check]:
    for name, allowed, share, how in (
        ("idle", limits.idle, run.gpu_idle_share, f"{TRACED}; or as a curve: `nvidia-smi dmon -o DT > gpu.txt`"),
        ("data_wait", limits.data_wait, run.data_wait_share, RECORD),
    ):
        if allowed is None:
            continue
        if share is None:
            yield _missing(name, allowed, how)
        else:
            said = f"{_percent(share)} of the time"
            yield Check(name, allowed, "fail" if share > allowed else "pass", Interval(share, share, share), said)


def _missing(name: str, allowed: float, how: str, *, in_baseline: bool = False) -> Check:
    said = "not measured" + (" in the baseline" if in_baseline else "")
    return Check(name, allowed, "cannot tell", None, said, how)


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The steps of each start, of the baseline and of the run."""

    before: list[Floats64]
    after: list[Floats64]
    paired: bool = False  # one start each, whose steps have the same numbers
    apart: bool = False  # they hold other steps of their runs

    @property
    def starts(self) -> list[int]:
        return [len(self.before), len(self.after)]

    @property
    def steps(self) -> list[int]:
        return [sum(map(len, side)) for side in (self.before, self.after)]


def _sides(baseline: Baseline, run: Baseline) -> _Sides:
    """Return the steps that all starts have, where their numbers are known; else all.

    A schedule gives each step its own work: sequences grow, checkpoints come every so many steps.
    """
    seconds = [np.array(steps) for steps in (*baseline.step_seconds, *run.step_seconds)]
    numbers = [np.array(steps) for steps in (*baseline.step_numbers, *run.step_numbers)]
    kept = len(baseline.step_seconds)
    known = len(numbers) == len(seconds) and len(_intervals(baseline, run)) == 1
    if known and baseline.steps_from == run.steps_from:
        common = reduce(np.intersect1d, numbers)
        if len(common) >= max(ENOUGH * min(map(len, numbers)), LEAST):
            seconds = [steps[np.isin(of, common)] for steps, of in zip(seconds, numbers, strict=True)]
            return _Sides(seconds[:kept], seconds[kept:], paired=len(seconds) == 2)
        return _Sides(seconds[:kept], seconds[kept:], apart=True)
    return _Sides(seconds[:kept], seconds[kept:])


def _intervals(*sides: Baseline) -> set[int]:
    """Return how many steps each time is the mean of: a trainer may print every tenth."""
    numbers = [of for side in sides for of in side.step_numbers]
    return {interval_of(np.array(of)) for of in numbers if len(of) > 1}


def _step_time(run: Baseline, baseline: Baseline, allowed: float) -> Check:
    name = "step_time_regression"
    if unlike := _unlike(name, allowed, run, baseline):
        return unlike
    if len(every := _intervals(baseline, run)) > 1:
        said = f"times of {min(every)} and of {max(every)} steps each: their medians are not alike"
        return Check(name, allowed, "cannot tell", None, said, "print as often as then, or limit throughput")
    sides = _sides(baseline, run)
    ratio = starts.ratio_of_medians(sides.before, sides.after)
    slower = Interval(1 / ratio.high - 1, 1 / ratio.likely - 1, 1 / ratio.low - 1 if ratio.low else math.inf)
    return _judged(name, allowed, slower, ("slower", "faster"), sides)


def _throughput(run: Baseline, baseline: Baseline, allowed: float) -> Check:
    name = "throughput_loss"
    if unlike := _unlike(name, allowed, run, baseline):
        return unlike
    sides = _sides(baseline, run)
    if sides.paired and vary_together(sides.before[0], sides.after[0]):
        ratio = ratio_of_paired_means(sides.before[0], sides.after[0])
    else:
        ratio = starts.ratio_of_means(sides.before, sides.after)
    lost = Interval(1 - ratio.high, 1 - ratio.likely, 1 - ratio.low)
    return _judged(name, allowed, lost, ("less", "more"), sides)


def _unlike(name: str, allowed: float, run: Baseline, baseline: Baseline) -> Check | None:
    """Return that a limit on steps cannot be judged; None where both tell of the same."""
    if not (run.step_seconds and baseline.step_seconds):
        return _missing(name, allowed, RECORD, in_baseline=not baseline.step_seconds)
    if run.per != baseline.per:
        said = f"the baseline has times of a {baseline.per}, the run of a {run.per}"
        return Check(name, allowed, "cannot tell", None, said, RECORD)
    return None


def _judged(name: str, allowed: float, worse: Interval, words: tuple[str, str], sides: _Sides) -> Check:
    """Return the check of a change; `words` name one for the worse and one for the better."""
    outcome = verdict(worse, allowed)
    said = _change(worse, words)
    said += " from the baseline" if said.startswith(SAME) else " than the baseline"
    hint = _more(worse, allowed, sides) if outcome == "cannot tell" else ""
    return Check(name, allowed, outcome, worse, said, hint)


def verdict(worse: Interval, allowed: float) -> Outcome:
    """Say whether a change for the worse, a share of what was, is allowed."""
    if worse.likely > allowed and worse.low > 0:
        return "fail"
    sure = worse.high - worse.likely <= allowed
    return "pass" if worse.high <= allowed or (sure and worse.likely <= allowed) else "cannot tell"


def _more(worse: Interval, allowed: float, sides: _Sides) -> str:
    """Say what it takes: with four times as many steps an interval becomes half as wide."""
    steps = sides.steps
    had = f"here are {steps[0]:,} in the baseline and {steps[1]:,} in the run"
    half = (worse.high - worse.low) / 2
    aim = max(allowed, worse.likely)  # so that it excludes no change, or so that it is no wider than the limit
    if allowed <= 0:
        return f"a limit of 0% is kept only by what is surely no worse: {had}"
    if min(map(len, (*sides.before, *sides.after))) < LEAST or not math.isfinite(half):
        return f"too few steps, or too unlike each other, to say how many it takes: {had}"
    if max(sides.starts) > 1:
        return f"so few starts of the job ({sides.starts[0]} and {sides.starts[1]}) do not tell it: {REPEAT}"
    each = 2 / sum(1 / count for count in steps) * (half / aim) ** 2
    return f"it takes about {math.ceil(max(each, min(steps) + 1, FEW)):,} steps in each: {had}"


def _unseen(run: Baseline, limits: Limits, baseline: Baseline, broken: Set[str]) -> Iterator[str]:
    """Yield that the mean step is longer where only the median is limited: pauses now and then do not move that."""
    allowed = limits.step_time_regression
    if allowed is None or limits.throughput_loss is not None or "step_time_regression" in broken:
        return
    throughput = _throughput(run, baseline, allowed)
    if throughput.outcome == "fail":
        yield f"throughput is {throughput.message}: some steps take much longer. --max-throughput-loss limits that"


def _change(worse: Interval, words: tuple[str, str]) -> str:
    """Return "7.1% slower (4.2% to 9.8%)", or both ends with their word where they are not the same."""

    def said(share: float, *, word: bool = True) -> str:
        if word and abs(share) < NOTHING:
            return SAME
        return _percent(abs(share)) + (f" {words[share < 0]}" if word else "")

    low, high = sorted((worse.low, worse.high), key=abs)
    if not math.isfinite(worse.low) or not math.isfinite(worse.high):
        return f"{said(worse.likely)} (not known how sure)"
    if (worse.low < 0) == (worse.high < 0):
        return f"{said(worse.likely)} ({said(low, word=False)} to {said(high, word=False)})"
    return f"{said(worse.likely)} ({said(worse.low)} to {said(worse.high)})"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"
