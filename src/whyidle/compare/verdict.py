"""The verdict on two sides: by the interval of the ratio of their mean steps, and what it would have seen at least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.compare import bootstrap, starts
from whyidle.compare.arms import Repeat
from whyidle.compare.student import NORMAL
from whyidle.compare.work import RECORD, UNITS, common_work
from whyidle.model.comparison import Interval, Per, Verdict
from whyidle.model.evidence import Floats64
from whyidle.read.trainer_patterns import EXAMPLES

# What differs by less is no improvement, however sure that it differs (docs/compare.md).
DELTA: Final = 0.01
# Steps after the warm-up. Of three an interval is known, as wide as two degrees of freedom ask: of 400 pairs that did
# not differ 3% at most were called improved, of 3, 5 and 9 steps alike, where steps do not depend on each other.
FEWEST: Final = bootstrap.LEAST
FEW: Final = 10  # steps: fewer do not show whether they depend on each other, which widens intervals (judgement)
MUCH: Final = 0.9  # of a run's steps: where fewer are compared it is said; a profiler holds up some anyway (judgement)
# sd over mean that one window may have by itself: steps of recordings with ProfilerStep vary by 0.01-0.16
# (whyidle.measure.steps), and nothing tells it of a recording without steps.
VARIES: Final = 0.16
LINES: Final = f"Lines like {EXAMPLES} are read, or run both under `whyidle run`"
NOUNS: Final[dict[Per, str]] = {"step": "steps", "sample": "samples", "token": "tokens", "unit": "units of work"}


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict in numbers, before anything else is held against it."""

    verdict: Verdict
    message: str
    per: Per = "step"
    speedup: Interval | None = None
    throughput: Interval | None = None
    smallest: float | None = None
    between_runs: bool = False


def judged(before: Sequence[Repeat], after: Sequence[Repeat]) -> Judged:
    """Return whether the second side is faster than the first, by how much, and how sure that is."""
    short = next(
        (why for name, side in (("BEFORE", before), ("AFTER", after)) if (why := _lacks(name, side))),
        None,
    )
    if short is not None:
        return _by_windows(before, after) or Judged("cannot judge", f"Cannot judge: {short}")
    work = common_work(before, after)
    if isinstance(work, str):
        return Judged("cannot judge", f"Cannot judge: {work}")
    per, factor = work
    sides = [[one.steady for one in side] for side in (before, after)]
    every = {one.pace.interval for one in (*before, *after) if one.pace is not None}
    # the median of steps is not that of means of ten
    speedup = starts.ratio_of_medians(*sides) if len(every) == 1 else None
    paired = _paired(before, after)
    ratio = bootstrap.ratio_of_paired_means(*paired) if paired else starts.ratio_of_means(*sides)
    throughput = ratio.scaled(factor)
    smallest = _called(bootstrap.smallest_detectable(throughput))
    verdict = _verdict(throughput)
    between = len(before) > 1 and len(after) > 1
    said = [_answer(verdict, throughput, per, smallest), *_counted(per, factor)]
    said += [_rests_on(before, after, between, " in pairs, as they vary together" if paired else "")]
    return Judged(verdict, " ".join(said), per, speedup, throughput, smallest, between)


def _verdict(ratio: Interval) -> Verdict:
    if ratio.low > 1 + DELTA:
        return "improved"
    return "regressed" if ratio.high < 1 / (1 + DELTA) else "no detectable change"


def _called(seen: float) -> float:
    """Return the change that would have been called one in 80% of cases: what is seen so often, beyond DELTA."""
    return (1 + DELTA) * (1 + seen) - 1


def _lacks(name: str, side: Sequence[Repeat]) -> str | None:
    """Return why the steps of a side do not allow a verdict; None where they do."""
    if any(one.pace is None for one in side):
        paces = " and ".join(dict.fromkeys(one.report.run.levels[0] for one in side if one.report.run.levels))
        if any(curve.step_log for one in side for curve in one.run.curves):
            return f"{name} ({paces}): its lines tell neither how long steps take nor a rate. {LINES}."
        curve = all(one.report.run.only_curves for one in side)
        what = "GPU curves alone tell how busy a GPU is, not how fast its job" if curve else "nothing tells of steps"
        hint = UNITS if any(one.recorded_s for one in side) else RECORD
        return f"{name} ({paces or 'no evidence'}): {what}. {_capital(hint)}."
    least = min(side, key=lambda one: len(one.steady))
    if len(least.steady) >= FEWEST or least.pace is None:
        return None
    whole, left = len(least.pace.seconds), len(least.steady)
    steps = f"{whole} step{'' if whole == 1 else 's'}"
    rest = f", of which {left} {'is' if left == 1 else 'are'} left after the warm-up" if left < whole else ""
    return f"{name} has {steps}{rest}: {FEWEST} are the fewest that can show a difference. {_capital(RECORD)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _by_windows(before: Sequence[Repeat], after: Sequence[Repeat]) -> Judged | None:
    """Return the verdict by units of work over the time that was recorded; None where either is not known.

    One recording is one value. How much that varies is not in it; VARIES stands in, and the answer says so.
    """
    rates: list[float] = []
    for side in (before, after):
        known = [one.recorded_s / one.units for one in side if one.recorded_s and one.units]
        if len(known) < len(side):
            return None
        rates.append(sum(known) / len(known))
    ratio = rates[0] / rates[1]
    error = VARIES * math.sqrt(1 / len(before) + 1 / len(after))
    width = math.exp(NORMAL.inv_cdf(0.975) * error)
    throughput = Interval(ratio / width, ratio, ratio * width)
    smallest = _called(math.expm1(bootstrap.POWER * error))
    verdict = _verdict(throughput)
    said = (
        f"{_answer(verdict, throughput, 'unit', smallest)} No steps were compared: each recording is one value, and "
        f"that range supposes that it varies by {VARIES:.0%}, as steps do at most."
    )
    return Judged(verdict, said, "unit", None, throughput, smallest)


def _answer(verdict: Verdict, ratio: Interval, per: Per, smallest: float) -> str:
    said = f"{ratio.likely:.2f}x the {NOUNS[per]} per second ({ratio.low:.2f}x–{ratio.high:.2f}x, 95%)"
    if verdict != "no detectable change":
        return f"{_capital(verdict)}: {said}."
    if not math.isfinite(smallest):
        return f"No detectable change: {said}."
    if smallest >= 1:
        return f"No detectable change: {said}; one by {1 + smallest:.2g}x or more would have been seen."
    least = f"{smallest:.0%}" if smallest >= 0.1 else f"{smallest * 100:.2g}%"
    return f"No detectable change: {said}; a change of {least} or more would have been seen."


def _counted(per: Per, factor: float) -> list[str]:
    """Return why it is not counted per step, where that has to be said."""
    return [] if factor == 1.0 else [f"AFTER's step does {factor:.3g}x the work, so it is counted per {per}."]


def _paired(before: Sequence[Repeat], after: Sequence[Repeat]) -> tuple[Floats64, Floats64] | None:
    """Return the steps of two runs where they have the same numbers, and are seen to hold the same work."""
    if len(before) > 1 or len(after) > 1:
        return None
    one, other = before[0], after[0]
    numbers = [side.pace.number for side in (one, other) if side.pace is not None and side.pace.number is not None]
    if (
        len(numbers) < 2
        or not np.array_equal(numbers[0], numbers[1])
        or not bootstrap.vary_together(one.steady, other.steady)
    ):
        return None
    return one.steady, other.steady


def _rests_on(before: Sequence[Repeat], after: Sequence[Repeat], between: bool, how: str) -> str:
    """Return how far the answer goes."""
    counts = [sum(len(one.steady) for one in side) for side in (before, after)]
    steps = f"{counts[0]:,} and {counts[1]:,} steps{how}{_cut(before, after)}."
    if between:
        more = (
            " Of so few starts the range is wide: a third of each narrows it." if len(before) == len(after) == 2 else ""
        )
        return f"By {len(before)} and {len(after)} repeats, {steps}{more}"
    few = "So few do not show how much one depends on the next: the range supposes that it does not. "
    said = f"By {steps} {few if min(counts) < FEW else ''}"
    if max(len(before), len(after)) > 1:
        return f"{said}Of one side there are no repeats: it is taken to differ from start to start as the other does."
    return f"{said}Within these two runs only: how much a job differs from start to start is not known without repeats."


def _cut(before: Sequence[Repeat], after: Sequence[Repeat]) -> str:
    """Return how far a run goes of which more than a little is left out, since the other does not have it."""
    longer = []
    for name, side in (("BEFORE", before), ("AFTER", after)):
        paces = [one.pace for one in side if one.pace is not None and one.pace.uncut is not None]
        most = max(paces, key=lambda pace: len(pace.uncut.seconds) if pace.uncut else 0, default=None)
        whole = most.uncut if most is not None else None
        if most is not None and whole is not None and whole.span and len(most.seconds) < MUCH * len(whole.seconds):
            longer.append(f"{name} has {whole.span[0]:,}–{whole.span[1]:,}")
    return f", those that both have ({', '.join(longer)})" if longer else ""
