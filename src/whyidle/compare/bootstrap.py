"""How sure a mean, or a ratio of step times, is when one step is not independent of the next.

Steps come in moods: a slow disk, a busy host, a long batch. Their means vary more than as many independent steps would,
so whole blocks of neighbours are drawn again (circular block bootstrap; Politis and Romano, 1992). Two corrections keep
the promise of 95% where blocks are few: a block's own mean is part of the mean that it is held against, by 1 - b/n, and
a variance from n/b blocks has that many degrees of freedom (Student's t). bench/compare.py prints how often intervals
hold the truth.

Steps of the same number hold the same work where a schedule or the order of data decides it: both runs pause in them,
or take a long batch. Where the two series show that, the same steps are drawn of both: what they share drops out.

With repeats of a run, runs are drawn first and blocks within them (Kalibera and Jones, 2013): what differs from one
start of a job to the next is not seen within one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from whyidle.compare.student import NORMAL, student
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 2000  # docs/method.md
CUBE: Final = 3.0  # times the cube root of the length: the least block (docs/method.md)
CORRELATED: Final = 4.0  # correlation times in a block: with two of them intervals are too narrow (docs/method.md)
BLOCKS: Final = 5  # at least: a variance from fewer is none
WINDOW: Final = 5.0  # correlation times over which correlation is summed (Sokal, 1997)
POWER: Final = 2.8  # standard errors: a change of so many is found in 80% at 5% (1.96 + 0.84)
DRAWN_AT_ONCE: Final = 2_000_000  # blocks: 16 MB
TOGETHER: Final = 0.5  # correlation from which on steps are pairs: of 30 independent ones 3 in 1,000 show as much
FEWEST_PAIRS: Final = 30
LEAST: Final = 3  # values: of fewer, nothing is known of how they vary


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """A statistic, and what it was in resamples less what it is, widened to be as wide as the truth asks."""

    value: float
    deviations: Floats64
    freedom: float

    @property
    def logarithms(self) -> Floats64:
        """Return the deviations of the logarithm."""
        return np.log(np.maximum(self.value + self.deviations, self.value * 1e-6) / self.value)


_Statistic: TypeAlias = Callable[[Floats64, np.random.Generator], _Drawn]


def mean_interval(values: Floats64, confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of a series with its interval; of fewer than three values the interval has no limits."""
    if len(values) < LEAST:
        return Interval(-math.inf, float(values.mean()) if len(values) else math.nan, math.inf)
    drawn = _mean(values, _seeded(0))
    low, high = _limits(drawn.deviations, drawn.freedom, confidence)
    return Interval(drawn.value + low, drawn.value, drawn.value + high)


def mean_of_runs(runs: Sequence[Floats64]) -> Interval:
    """Return the mean over repeats of a run of their mean, with its 95% interval; see `ratio_of_means`."""
    if len(runs) == 1 or min(map(len, runs)) < LEAST:
        return mean_interval(np.concatenate(list(runs)))
    drawn = _over_runs([_mean(run, _seeded(k)) for k, run in enumerate(runs)], _seeded(len(runs)))
    low, high = _limits(drawn.deviations, drawn.freedom, CONFIDENCE)
    return Interval(drawn.value + low, drawn.value, drawn.value + high)


def ratio_of_means(before: Sequence[Floats64], after: Sequence[Floats64]) -> Interval:
    """Return mean(before) / mean(after) with its 95% interval; above 1 the second is faster.

    Args:
        before: step times, any unit, a series for each repeat of the run.
        after: the same of the other run.
    """
    return _ratio(before, after, _mean)


def vary_together(before: Floats64, after: Floats64) -> bool:
    """Say whether the same steps of two runs are long in both, and short; never of a run beside itself."""
    if len(before) != len(after) or len(before) < FEWEST_PAIRS or np.array_equal(before, after):
        return False
    if not (before.std() and after.std()):
        return False
    return float(np.corrcoef(before, after)[0, 1]) >= TOGETHER


def ratio_of_paired_means(before: Floats64, after: Floats64) -> Interval:
    """Return mean(before) / mean(after) of the same steps, with its 95% interval: what they share does not widen it."""
    apart = before / before.mean() - after / after.mean()
    block = block_length(apart)
    one, other = (_mean(series, _seeded(0), block) for series in (before, after))  # one seed: the same steps are drawn
    ratio = one.value / other.value
    # few pauses say as little of how they vary as few steps do: of n normal values it is n, of k among zeros k
    fourth = float((apart**4).sum())
    count = 3 * float((apart**2).sum()) ** 2 / fourth if fourth else math.inf
    low, high = _limits(one.logarithms - other.logarithms, min(one.freedom, count - 1), CONFIDENCE)
    return Interval(ratio * math.exp(low), ratio, ratio * math.exp(high))


def ratio_of_medians(before: Sequence[Floats64], after: Sequence[Floats64]) -> Interval:
    """Return median(before) / median(after) with its 95% interval; of repeats the mean of their medians."""
    return _ratio(before, after, _median)


def smallest_detectable(ratio: Interval) -> float:
    """Return the change that would have been found in 80% of cases, by how wide an interval is: 0.02 is 2%."""
    if not 0 < ratio.low <= ratio.high < math.inf:
        return math.inf
    error = (math.log(ratio.high) - math.log(ratio.low)) / (2 * NORMAL.inv_cdf(0.5 + CONFIDENCE / 2))
    return math.expm1(POWER * error)


def block_length(values: Floats64) -> int:
    """Return how many neighbours are drawn together: so many that what is correlated stays together."""
    n = len(values)
    least: float = CUBE * n ** (1 / 3)
    return max(math.floor(min(max(least, CORRELATED * correlation_time(values)), n / BLOCKS)), 1)


def correlation_time(values: Floats64) -> float:
    """Return how many steps count as one independent: 1 + 2 times the sum of autocorrelations, 1 at least."""
    n = len(values)
    apart = values - values.mean()
    length = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(apart, length)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum), length)[: max(n // 3, 1)]
    if correlation[0] <= 0:
        return 1.0
    times = 2 * np.cumsum(correlation / correlation[0]) - 1
    enough = np.flatnonzero(np.arange(len(times)) >= WINDOW * times)
    return max(float(times[enough[0] if len(enough) else -1]), 1.0)


def _ratio(before: Sequence[Floats64], after: Sequence[Floats64], statistic: _Statistic) -> Interval:
    sides = []
    for side, runs in enumerate((before, after)):
        drawn = [statistic(run, _seeded(side, k)) for k, run in enumerate(runs)]
        sides.append(_over_runs(drawn, _seeded(side, len(runs))) if len(runs) > 1 else drawn[0])
    one, other = sides
    ratio = one.value / other.value
    if min(len(run) for runs in (before, after) for run in runs) < LEAST:
        return Interval(0.0, ratio, math.inf)
    variances = [float(drawn.logarithms.var()) for drawn in sides]
    whole = sum(variances)
    # Welch and Satterthwaite: of two variances the larger decides
    freedom = whole**2 / sum(v**2 / drawn.freedom for v, drawn in zip(variances, sides, strict=True)) if whole else 1.0
    low, high = _limits(one.logarithms - other.logarithms, freedom, CONFIDENCE)
    return Interval(ratio * math.exp(low), ratio, ratio * math.exp(high))


def _limits(deviations: Floats64, freedom: float, confidence: float) -> tuple[float, float]:
    upper = 0.5 + confidence / 2
    wider = student(upper, freedom) / NORMAL.inv_cdf(upper)
    low, high = np.quantile(deviations, [1 - upper, upper])
    return min(float(low) * wider, 0.0), max(float(high) * wider, 0.0)


def _over_runs(runs: Sequence[_Drawn], random: np.random.Generator) -> _Drawn:
    """Return the mean of a statistic over repeats: runs are drawn, and within them what was drawn there."""
    count = len(runs)
    values = np.array([run.value for run in runs])
    within = np.array([run.deviations for run in runs])
    which = random.integers(0, count, (RESAMPLES, count))
    again = values[which] + within[which, random.integers(0, RESAMPLES, (RESAMPLES, count))]
    spread = (again.mean(axis=1) - values.mean()) * math.sqrt(count / (count - 1))
    return _Drawn(float(values.mean()), spread, count - 1)


def _mean(values: Floats64, random: np.random.Generator, block: int = 0) -> _Drawn:
    block = block or block_length(values)
    return _Drawn(float(values.mean()), _deviations(values, block, random), len(values) / block - 1)


def _median(values: Floats64, random: np.random.Generator) -> _Drawn:
    """Return the median, by how much the share of values below it varies (Woodruff, 1952): a mean, as any other."""
    middle = float(np.median(values))
    below = (values < middle) + 0.5 * (values == middle)
    block = max(block_length(values), block_length(below))
    shares = np.clip(0.5 - _deviations(below, block, random), 0.0, 1.0)
    return _Drawn(middle, np.quantile(values, shares) - middle, len(values) / block - 1)


def _deviations(values: Floats64, block: int, random: np.random.Generator) -> Floats64:
    """Return what the mean of resamples is beside the mean of all."""
    n = len(values)
    apart = values - values.mean()
    summed = np.concatenate(([0.0], np.cumsum(np.concatenate((apart, apart[:block])))))
    sums = summed[block : block + n] - summed[:n]
    count = -(-n // block)
    rows = max(DRAWN_AT_ONCE // count, 1)
    drawn = [
        sums[random.integers(0, n, (min(rows, RESAMPLES - begin), count))].sum(axis=1)
        for begin in range(0, RESAMPLES, rows)
    ]
    return np.concatenate(drawn) / (count * block) / math.sqrt(1 - block / n if block < n else 1.0)


def _seeded(*parts: int) -> np.random.Generator:
    """Return a generator: the same recording gets the same interval every time."""
    return np.random.default_rng(parts)
