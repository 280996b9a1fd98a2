"""Whether the model learns the same: the losses of two runs, step by step.

Losses of the same step on the same data are pairs, and their difference hardly varies, where each loss does. The same
is what two one-sided tests show: the mean difference of the last pairs lies within the margin. Where the data came in
another order there are no pairs, and that is said, not guessed over. docs/learning.md has the margins and limits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whyidle.compare.equivalence import Equivalence, tost
from whyidle.compare.pairing import Pairing, pairing
from whyidle.compare.student import NORMAL, student
from whyidle.measure.loss import Losses, losses
from whyidle.model.comparison import Learned, Learning
from whyidle.model.evidence import Floats64, Ints, Run

LAST: Final = 200  # pairs that are compared: docs/learning.md
FEWEST: Final = 30  # pairs: fewer show nothing, neither order nor difference (judgement)
MARGIN: Final = 0.005  # of the loss: docs/learning.md
SEEDS: Final = 2.0  # standard deviations between runs of one configuration: docs/learning.md
START: Final = (
    0.003  # of the loss, at the first step: bfloat16 rounds by up to 1 in 256, and a loss is a mean (judgement)
)
RAGGED: Final = 0.05  # of the samples of a step: the last batch of an epoch may be smaller (judgement)
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
    "compile": "torch.compile",
    "compile_mode": "torch.compile",
    "compile_backend": "torch.compile",
}
HOW: Final = "`whyidle run --losses` records them."


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Losses of the same steps, all finite."""

    step: Ints
    before: Floats64
    after: Floats64

    def __len__(self) -> int:
        return len(self.step)

    @property
    def difference(self) -> Floats64:
        """Return after - before."""
        return self.after - self.before

    @property
    def scale(self) -> float:
        """Return what a share of the loss is a share of."""
        return abs(float(self.before.mean()))

    def part(self, rows: slice) -> _Pairs:
        """Return some of them."""
        return _Pairs(self.step[rows], self.before[rows], self.after[rows])


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
    told = _broken(one, other) or _compared(one, other, alike, rebatched=_rebatched(one, other, changed))
    common = np.intersect1d(one.step, other.step, assume_unique=True)[-LAST:]
    return replace(
        told,
        message=f"{told.verdict}: {told.message}",
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
    """Return that a run lost its loss where the other kept it; None where it did not.

    Where both have losses that are no numbers, it is a sign test: as many of one as of the other are chance.
    """
    _, i, j = np.intersect1d(before.step, after.step, assume_unique=True, return_indices=True)
    gone, lost = ~np.isfinite(before.loss[i]), ~np.isfinite(after.loss[j])
    only, kept = int(np.count_nonzero(lost & ~gone)), int(np.count_nonzero(gone & ~lost))
    if not only or (kept and only - kept <= NORMAL.inv_cdf(LEVEL) * math.sqrt(only + kept)):
        return None
    first = int(after.step[j][lost & ~gone][0])
    where = f"the loss of AFTER is no number in {only:,} of {len(i):,} steps, first in step {first:,}"
    return Learning("worse", f"{where}, where that of BEFORE is one.", len(i))


def _compared(before: Losses, after: Losses, repeats: Sequence[Losses], *, rebatched: bool) -> Learning:
    """Return the comparison of what is finite in both."""
    pairs = _paired(before, after)
    if rebatched:
        return _apart("the batch size changed, so that a step holds other samples", before, after)
    if len(pairs) < FEWEST:
        few = f"{len(pairs):,} steps have a loss in both runs, and {FEWEST} are the least."
        return Learning("not shown", few, len(pairs))
    last = pairs.part(slice(-LAST, None))
    alike = pairing(last.before, last.after)
    if not (alike.shown or (math.isnan(alike.correlation) and _start(pairs) <= START)):
        return _apart(_why(pairs, alike), before, after)
    margin = max(MARGIN * last.scale, SEEDS * _spread(last, repeats))
    return _tested(last, tost(last.difference, margin), _start(pairs))


def _paired(before: Losses, after: Losses) -> _Pairs:
    step, i, j = np.intersect1d(before.step, after.step, assume_unique=True, return_indices=True)
    one, other = before.loss[i], after.loss[j]
    finite = np.isfinite(one) & np.isfinite(other)
    return _Pairs(step[finite], one[finite], other[finite])


def _spread(last: _Pairs, repeats: Sequence[Losses]) -> float:
    """Return the standard deviation of mean losses between runs of one configuration; 0 where there is one run."""
    means = [float(last.before.mean())]
    for run in repeats:
        found = run.loss[np.isin(run.step, last.step) & np.isfinite(run.loss)]
        means += [float(found.mean())] if len(found) == len(last) else []
    return float(np.std(means, ddof=1)) if len(means) > 1 else 0.0


def _start(pairs: _Pairs) -> float:
    """Return by which share losses differ in the first step, before anything was learnt; NaN: it is not there."""
    if pairs.step[0] > 1:
        return math.nan
    return abs(float(pairs.difference[0])) / max(abs(float(pairs.before[0])), 1e-300)


def _tested(last: _Pairs, found: Equivalence, start: float) -> Learning:
    """Return what the tests show."""
    apart, margin = found.difference, found.margin
    verdict, beside = _judged(found, _drift(last), last)
    said = f"over the last {len(last):,} steps the loss differs by {_share(apart.likely, last, '+')}"
    said += f" ({_share(apart.low, last, '+')} to {_share(apart.high, last, '+')}), {beside}."
    if verdict != "the same" and start > START:
        said += f" It did by {start:.1%} in the first step: other initial weights, or another loss."
    return Learning(
        verdict,
        said,
        len(last),
        float(last.before.mean()),
        float(last.after.mean()),
        apart,
        margin,
        _slope(last.step, last.before),
        _slope(last.step, last.after),
    )


def _judged(found: Equivalence, drift: float, last: _Pairs) -> tuple[Learned, str]:
    """Return the verdict, and where the difference is beside the margin."""
    apart, margin = found.difference, found.margin
    limit = _share(margin, last)
    if found.holds and abs(drift) > margin:
        return "not shown", f"within {limit}, but it moves by {_share(drift, last, '+')} meanwhile"
    if found.holds:
        return "the same", f"within {limit}"
    if apart.low > 0 and apart.likely > margin:
        return "worse", f"beyond {limit}"
    if apart.high < 0 and apart.likely < -margin:
        return "better", f"beyond {limit}"
    return "not shown", f"not within {limit} for sure"


def _drift(last: _Pairs) -> float:
    """Return by how much the difference moves over the pairs, as far as that is sure; 0 where it may not move at all.

    By a line through the means of blocks, which hardly depend on each other.
    """
    parts = np.array_split(last.difference, BLOCKS)
    means = np.array([part.mean() for part in parts])
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


def _why(pairs: _Pairs, alike: Pairing) -> str:
    """Return why steps cannot be paired."""
    if math.isnan(alike.correlation):
        return "the losses are smooth, and do not start the same"
    last = f"the losses of the last {min(len(pairs), LAST):,} steps do not go up and down together"
    last += f" (correlation {alike.correlation:.2f})"
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
    at = f"{end:,.0f} samples" if told[0] and told[1] else f"{end:,.0f} steps"
    said = f"{why}. For information, the mean loss of the last before {at}: {means[0]:.4g} and {means[1]:.4g}"
    said += " (one seed each shows no more)."
    return Learning("cannot be paired", said, loss_before=_known(means[0]), loss_after=_known(means[1]))


def _mean(losses: Losses, samples: float, begin: float, end: float) -> float:
    """Return the mean of the finite losses of the steps that end in a range of samples."""
    at = losses.step * samples
    rows = (at > begin) & (at <= end) & np.isfinite(losses.loss)
    return float(losses.loss[rows].mean()) if rows.any() else math.nan


def _norm(losses: Losses, steps: Ints) -> float | None:
    """Return the mean norm of the gradient in these steps."""
    found = losses.grad_norm[np.isin(losses.step, steps)]
    found = found[np.isfinite(found)]
    return float(found.mean()) if len(found) else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _share(value: float, pairs: _Pairs, sign: str = "") -> str:
    """Return a difference of losses as a percentage of the loss; as it is where the loss is about nothing."""
    if pairs.scale < 1e-9:
        return f"{value:{sign}.3g}"
    return f"{value / pairs.scale:{sign}.2%}"
