"""Whether the model learns the same: the losses of two runs, step by step.

Losses of the same step on the same data are pairs, and their difference hardly varies, where each loss does. The same
is what two one-sided tests show: the mean difference of the last pairs lies within the margin. Where the data came in
another order there are no pairs, and that is said, not guessed over. docs/learning.md has the margins and limits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whyidle.compare.bootstrap import correlation_time
from whyidle.compare.equivalence import Equivalence, tost
from whyidle.compare.pace import interval_of
from whyidle.compare.pairing import TOGETHER, Pairing, pairing
from whyidle.compare.pairs import (
    FEWEST,
    LAST,
    Pairs,
    another_unit,
    empty_of_meaning,
    finite,
    moved,
    paired,
    shift,
)
from whyidle.compare.student import NORMAL, student
from whyidle.measure.loss import Losses, losses
from whyidle.model.comparison import Interval, Learned, Learning
from whyidle.model.evidence import Floats64, Ints, Run

MARGIN: Final = 0.005  # of the loss: docs/learning.md
SEEDS: Final = 2.0  # standard deviations between runs of one configuration: docs/learning.md
MOST: Final = 0.05  # of the loss: the widest margin, however far repeats lie apart (judgement)
START: Final = (
    0.003  # of the loss, at the first step: bfloat16 rounds by up to 1 in 256, and a loss is a mean (judgement)
)
OTHER: Final = 0.05  # of the loss, at the first step: no precision does that, so that it is not learnt (judgement)
RAGGED: Final = 0.05  # of the samples of a step: the last batch of an epoch may be smaller (judgement)
SHORTER: Final = 0.05  # of its steps: a run that ends as much earlier is said to (judgement)
GONE: Final = 0.1  # of the last steps: more losses that are no numbers in both runs leave nothing to show (judgement)
ROUNDED: Final = 5e-5  # of the loss: less is printed as nothing, without a sign
BLOCKS: Final = 10  # of the last pairs, whose means show how the difference moves
LEVEL: Final = 0.95  # of each one-sided test
# Settings that change what is computed, not only how fast: to be shown where they change (docs/settings.md).
NUMERICS: Final = {
    "autocast_dtype": "the precision",
    "param_dtype": "the precision",
    "default_dtype": "the precision",
    "tf32_matmul": "the precision",
    "tf32_cudnn": "the precision",
    "batch_size": "the batch size",
}
HOW: Final = "`whyidle run --losses` records them."


def learning(before: Run, after: Run, changed: Collection[str] = (), repeats: Sequence[Run] = ()) -> Learning | None:
    """Return whether two runs learn the same; None where neither has losses and nothing asks for them.

    Args:
        before: the run before the change.
        after: the run after it.
        changed: settings that differ between them, as docs/settings.md names them.
        repeats: other runs of what `before` ran: how far those lie apart is no change.
    """
    required = required_by(changed)
    one, other = losses(before), losses(after)
    if one is None or other is None:
        if one is None and other is None and not required:
            return None
        who = "neither run has any" if one is other else f"{'BEFORE' if one is None else 'AFTER'} has none"
        return Learning("no losses", f"no losses: {who}; {HOW}", required=required)
    alike = [found for run in repeats if (found := losses(run)) is not None]
    ahead = shift(one, other)
    other = moved(other, ahead)
    told = _broken(one, other) or _compared(one, other, alike, rebatched=_rebatched(one, other, changed))
    told = _with_end(told, one, other)
    counted = (
        f" AFTER counts {abs(ahead)} steps {'ahead' if ahead > 0 else 'behind'}: they are paired so." if ahead else ""
    )
    common = np.intersect1d(one.step, other.step, assume_unique=True)[-LAST:]
    return replace(
        told,
        message=f"{told.verdict}: {told.message}{counted}",
        nan_before=one.not_finite,
        nan_after=other.not_finite,
        grad_norm_before=_norm(one, common),
        grad_norm_after=_norm(other, common),
        required=required,
    )


def required_by(changed: Collection[str]) -> str:
    """Return which changes ask for a proof that the model learns the same, in words; "" none does."""
    return " and ".join(dict.fromkeys(NUMERICS[name] for name in NUMERICS if name in changed))


def _rebatched(before: Losses, after: Losses, changed: Collection[str]) -> bool:
    """Say whether a step holds another number of samples: half the batch and two passes a step do not change it."""
    one, other = before.samples_per_step, after.samples_per_step
    if one is None or other is None:
        return "batch_size" in changed
    return abs(one - other) > RAGGED * max(one, other)


def _broken(before: Losses, after: Losses) -> Learning | None:
    """Return that a run lost its loss where the other kept it, or that both did; None where they did not.

    Where both have losses that are no numbers, it is a sign test: as many of one as of the other are chance.
    """
    step, i, j = np.intersect1d(before.step, after.step, assume_unique=True, return_indices=True)
    gone, lost = ~finite(before.loss[i]), ~finite(after.loss[j])
    only, kept = int(np.count_nonzero(lost & ~gone)), int(np.count_nonzero(gone & ~lost))
    if only and not (kept and only - kept <= NORMAL.inv_cdf(LEVEL) * math.sqrt(only + kept)):
        where = f"the loss of AFTER is no number in {only:,} of {len(i):,} steps"
        first = int(step[lost & ~gone][0])
        said = f"{where}, first in step {first:,}, where that of BEFORE is one."
        return Learning("worse", said, f"{only:,} of {len(i):,} losses are not numbers", len(i))
    ends = int(np.count_nonzero((gone & lost)[-LAST:]))
    if ends > GONE * len(step[-LAST:]):
        said = f"the losses of both runs are no numbers in {ends:,} of the last {len(step[-LAST:]):,} steps."
        return Learning("not shown", said, steps=len(i))
    return None


def _with_end(told: Learning, before: Losses, after: Losses) -> Learning:
    """Return what was found, with what is left out of it since one run ends before the other."""
    ends = int(before.step[-1]), int(after.step[-1])
    longest = max(ends)
    if longest - min(ends) <= SHORTER * longest or told.verdict in {"cannot be paired", "worse"}:
        return told
    said = f"{told.message} {'BEFORE' if ends[0] < ends[1] else 'AFTER'} ends with step {min(ends):,} of {longest:,}"
    rest = ~finite(after.loss[after.step > ends[0]])
    if not rest.any():
        return replace(told, message=f"{said}, and of the rest nothing is shown.")
    verdict: Learned = "not shown" if told.verdict == "the same" else told.verdict
    return replace(
        told, verdict=verdict, message=f"{said}, and then AFTER's loss is no number in {rest.sum():,} steps."
    )


def _compared(before: Losses, after: Losses, repeats: Sequence[Losses], *, rebatched: bool) -> Learning:
    """Return the comparison of what is finite in both."""
    pairs = paired(before, after)
    if rebatched:
        return _apart("the batch size changed, so that a step holds other samples", before, after)
    if len(pairs) < FEWEST:
        few = f"{len(pairs):,} steps have a loss in both runs, and {FEWEST} are the least."
        return Learning("not shown", few, steps=len(pairs))
    last = pairs.last
    margin, source = _margin(last, repeats)
    if why := empty_of_meaning(last, margin):
        return Learning("not shown", why, steps=len(last))
    alike = pairing(last.before, last.after)
    every = interval_of(before.step), interval_of(after.step)
    if not (alike.shown or (math.isnan(alike.correlation) and pairs.start <= START)):
        why = _why(pairs, alike) if every[0] == every[1] else f"{_told(every)}, and do not go up and down together"
        return _apart(why, before, after)
    if (factor := another_unit(pairs)) is not None:
        why = f"AFTER's loss is {factor:.3g} times BEFORE's from the first steps on, so that it is another one: a sum"
        return _apart(f"{why} for a mean, or divided by the passes of a step", before, after)
    return _tested(pairs, tost(last.difference, margin), source, every)


def _margin(last: Pairs, repeats: Sequence[Losses]) -> tuple[float, str]:
    """Return how much may differ and still count as the same, and where that is from if repeats tell it."""
    least, most = MARGIN * last.scale, MOST * last.scale
    spread = SEEDS * _spread(last, repeats)
    if spread <= least:
        return least, ""
    if spread > most:
        return most, f", the widest margin, as runs of BEFORE lie {_share(spread / SEEDS, last)} apart"
    return spread, ", twice the standard deviation of runs of BEFORE"


def _told(every: tuple[int, int]) -> str:
    """Return that losses are told at different intervals."""
    return f"losses are told every {every[0]:,} and every {every[1]:,} steps, and may be means over as many"


def _spread(last: Pairs, repeats: Sequence[Losses]) -> float:
    """Return the standard deviation of mean losses between runs of one configuration; 0 where there is one run."""
    means = [float(last.before.mean())]
    for run in repeats:
        found = run.loss[np.isin(run.step, last.step) & finite(run.loss)]
        means += [float(found.mean())] if len(found) == len(last) else []
    return float(np.std(means, ddof=1)) if len(means) > 1 else 0.0


def _tested(pairs: Pairs, found: Equivalence, source: str, every: tuple[int, int]) -> Learning:
    """Return what the tests show."""
    last, apart = pairs.last, found.difference
    slopes = _slope(last.step, last.before), _slope(last.step, last.after)
    verdict, beside = _judged(found, last, source)
    said = f"over the last {len(last):,} steps the loss differs by {_range(apart, last)}, {beside}."
    nearer = min(abs(apart.low), abs(apart.high)) / max(last.scale, 1e-300)
    if verdict != "the same" and pairs.start > START:
        said += f" It did by {pairs.start:.1%} in the first step: other initial weights, or another loss."
        verdict = "not shown" if OTHER < pairs.start >= nearer else verdict
    # a mean over more steps lags behind, by as much as the loss falls meanwhile
    lag = abs(slopes[0]) * abs(every[0] - every[1]) / 2
    if verdict in {"worse", "better"} and every[0] != every[1] and nearer * last.scale <= lag + found.margin:
        said += f" But {_told(every)}."
        verdict = "not shown"
    means = float(last.before.mean()), float(last.after.mean())
    short = f"the loss is {_share(apart.likely, last)} higher" if verdict == "worse" else ""
    return Learning(verdict, said, short, len(last), *means, apart, found.margin, *slopes)


def _judged(found: Equivalence, last: Pairs, source: str) -> tuple[Learned, str]:
    """Return the verdict, and where the difference is beside the margin."""
    apart, margin = found.difference, found.margin
    limit = f"{_share(margin, last)}{source}"
    wanders = correlation_time(last.difference) * BLOCKS > len(last)
    if found.holds:
        why = _moves(last, margin, wanders)
        return ("not shown", f"within {limit}, but {why}") if why else ("the same", f"within {limit}")
    # of a difference that wanders the interval is too narrow: then it has to lie beyond the margin as a whole
    if apart.low > (margin if wanders else 0.0) and apart.likely > margin:
        return "worse", f"beyond {limit}"
    if apart.high < (-margin if wanders else 0.0) and apart.likely < -margin:
        return "better", f"beyond {limit}"
    return "not shown", f"not within {limit} for sure"


def _moves(last: Pairs, margin: float, wanders: bool) -> str:
    """Return how a difference leaves the margin though its mean does not; "" where it stays."""
    if abs(drift := _drift(last)) > margin:
        return f"it moves by {_share(drift, last, '+')} meanwhile"
    end = last.part(slice(-max(len(last) // BLOCKS, 3), None))
    late = tost(end.difference, margin).difference
    if late.low > margin or late.high < -margin:
        return f"by {_share(late.likely, last, '+')} over the last {len(end):,}"
    means = _means(last)
    if wanders and float(np.abs(means).max()) > margin:
        return f"it wanders from {_share(means.min(), last, '+')} to {_share(means.max(), last, '+')}"
    return ""


def _means(last: Pairs) -> Floats64:
    """Return the mean differences of blocks, which hardly depend on each other."""
    return np.array([part.mean() for part in np.array_split(last.difference, BLOCKS)])


def _drift(last: Pairs) -> float:
    """Return by how much the difference moves over the pairs, as far as that is sure; 0 where it may not move at all.

    By a line through the means of blocks.
    """
    means = _means(last)
    at = np.arange(BLOCKS) - (BLOCKS - 1) / 2
    slope = float(at @ means / (at @ at))
    left = means - means.mean() - slope * at
    error = math.sqrt(float(left @ left) / (BLOCKS - 2) / float(at @ at))
    sure = max(abs(slope) - student(LEVEL, BLOCKS - 2) * error, 0.0)
    return math.copysign(sure * BLOCKS, slope)


def _slope(step: Ints, loss: Floats64) -> float:
    """Return the slope of losses, per step."""
    at = step - step.mean()
    return float(at @ loss / (at @ at))


def _why(pairs: Pairs, alike: Pairing) -> str:
    """Return why steps cannot be paired."""
    if math.isnan(alike.correlation):
        known = not math.isnan(pairs.start)
        return f"the losses are smooth, and {'do not start the same' if known else 'the first step has none'}"
    last = f"the losses of the last {min(len(pairs), LAST):,} steps do not go up and down together"
    last += f" (correlation {alike.correlation:.2f} where {TOGETHER:g} shows it)"
    if len(pairs) >= 2 * FEWEST:
        first = pairs.part(slice(0, min(LAST, len(pairs) // 2)))
        found = pairing(first.before, first.after)
        if found.shown:
            return f"{last}, as those of the first {len(first):,} do ({found.correlation:.2f})"
    return f"{last}: the data came in another order"


def _apart(why: str, before: Losses, after: Losses) -> Learning:
    """Return that steps cannot be paired, with mean losses after as many samples, or steps, for information."""
    told = (before.samples_per_step, after.samples_per_step)
    one, other = (told[0], told[1]) if told[0] and told[1] else (1.0, 1.0)
    end = min(before.step[-1] * one, after.step[-1] * other)
    begin = end - LAST * min(one, other)
    means = [_mean(before, one, begin, end), _mean(after, other, begin, end)]
    unit = "steps" if one == other else "samples"
    first, last = (max(begin, 0) / one + 1, end / one) if one == other else (max(begin, 0), end)
    more = (means[1] - means[0]) / max(abs(means[0]), 1e-300)
    way = "higher" if more > 0 else "lower"
    said = f"{why}. For information, over {unit} {first:,.0f} to {last:,.0f} the mean loss is {means[0]:.4g} before and"
    said += f" {means[1]:.4g} after, {abs(more):.1%} {way} (one seed each shows no more)."
    short = f"the loss is {more:.0%} higher, of which one seed each shows no more" if more > MOST else ""
    return Learning("cannot be paired", said, short, loss_before=_known(means[0]), loss_after=_known(means[1]))


def _mean(losses: Losses, samples: float, begin: float, end: float) -> float:
    """Return the mean of the finite losses of the steps that end in a range of samples."""
    at = losses.step * samples
    rows = (at > begin) & (at <= end) & finite(losses.loss)
    return float(losses.loss[rows].mean()) if rows.any() else math.nan


def _norm(losses: Losses, steps: Ints) -> float | None:
    """Return the mean norm of the gradient in these steps."""
    found = losses.grad_norm[np.isin(losses.step, steps)]
    found = found[np.isfinite(found)]
    return float(found.mean()) if len(found) else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _range(apart: Interval, pairs: Pairs) -> str:
    """Return a difference of losses with its range; that it is below what is printed where all of it is."""
    if max(abs(apart.low), abs(apart.high)) < ROUNDED * pairs.scale:
        return f"less than {2 * ROUNDED:.2%}" if pairs.difference.any() else "nothing"
    likely, low, high = (_share(value, pairs, "+") for value in (apart.likely, apart.low, apart.high))
    return f"{likely} ({low} to {high})"


def _share(value: float, pairs: Pairs, sign: str = "") -> str:
    """Return a difference of losses as a percentage of the loss; as it is where the loss is about nothing."""
    if pairs.scale < 1e-9:
        return f"{value:{sign}.3g}"
    share = value / pairs.scale
    return f"{0.0 if abs(share) < ROUNDED else share:{'' if abs(share) < ROUNDED else sign}.2%}"
