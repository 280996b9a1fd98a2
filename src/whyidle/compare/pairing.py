"""Whether two runs saw the same data in the same order: only then does a step of one belong to a step of the other.

Batches are easy and hard, and a hard one is hard for both models. What is left of each loss when its trend is taken off
goes up and down together where the order is the same, and not at all where it is another: the correlation is near 1, or
as near 0 as chance has it. It is that of ranks (Spearman), so that a spike counts as one step. The chance is that of
Fisher's z, for as many independent pairs as there are after autocorrelation (Bartlett, 1946).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.compare.student import NORMAL
from whyidle.model.evidence import Floats64

SPAN: Final = 11  # steps, over which the trend is a mean: a trend is slower (judgement)
# Correlation. docs/learning.md has what trainings show: another order is within 0.2, the same 0.9 and more, and 0.5
# where one of the models learns ten times as slowly (measured).
TOGETHER: Final = 0.3
CHANCE: Final = 1e-3  # that independent losses seem so alike
LAGS: Final = 10  # over which autocorrelation is looked at: a trend leaves none beyond its span
EQUAL: Final = 1e-6  # of a loss: differences below it are rounding in float32, which has 1.2e-7
SMOOTH: Final = 1e-6  # of a loss: residuals below it hold no batches, as where each step sees all data


@dataclass(frozen=True, slots=True)
class Pairing:
    """How alike two series of losses are beside their trends."""

    correlation: float  # of ranks, -1 to 1; 1 where the losses are equal; NaN where nothing but the trend is there
    chance: float  # probability of as much from independent losses

    @property
    def shown(self) -> bool:
        """Say whether the order of the data is shown to be the same."""
        return self.correlation >= TOGETHER and self.chance < CHANCE


def pairing(before: Floats64, after: Floats64) -> Pairing:
    """Return how alike the losses of the same steps are.

    Args:
        before: losses of one run, in order of steps, all finite.
        after: those of the other at the same steps.
    """
    scale = max(float(np.median(np.abs(before))), 1e-300)
    if len(before) and float(np.max(np.abs(after - before))) <= EQUAL * scale:
        return Pairing(1.0, 0.0)
    one, other = _beside_trend(before), _beside_trend(after)
    if min(float(one.std()), float(other.std())) <= SMOOTH * scale:
        return Pairing(math.nan, 1.0)
    x, y = _ranks(one), _ranks(other)
    correlation = float(np.mean(x * y))
    effective = len(x) / _inflation(x, y)
    if effective <= 3:
        return Pairing(correlation, 1.0)
    z = math.atanh(min(max(correlation, -1 + 1e-12), 1 - 1e-12)) * math.sqrt(effective - 3)
    return Pairing(correlation, NORMAL.cdf(-z))


def _beside_trend(values: Floats64) -> Floats64:
    """Return the values less the mean of those around each; at the ends of as many as there are."""
    box = np.ones(min(SPAN, len(values)))
    return values - np.convolve(values, box, "same") / np.convolve(np.ones(len(values)), box, "same")


def _ranks(values: Floats64) -> Floats64:
    """Return the ranks of values, with mean 0 and variance 1; equal values share theirs."""
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[which]
    return np.asarray((ranks - ranks.mean()) / ranks.std())


def _inflation(x: Floats64, y: Floats64) -> float:
    """Return by what the variance of a correlation grows since neighbours are alike in both series."""
    lags = range(1, min(LAGS, len(x) // 3) + 1)
    return max(1 + 2 * sum(float(np.mean(x[k:] * x[:-k]) * np.mean(y[k:] * y[:-k])) for k in lags), 1.0)
