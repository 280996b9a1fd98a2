"""Counts with what they allow to say: a ratio never stands without its n, nor a main rate without its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

Z_95 = 1.959964  # two-sided 95% of the normal distribution


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of so many, and Wilson's 95% interval; without any, nothing is known."""

    hits: int
    n: int
    ratio: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, hits: int, n: int) -> Rate:
        if not n:
            return cls(hits, n, None, None, None)
        low, high = wilson(hits, n)
        return cls(hits, n, hits / n, low, high)

    @classmethod
    def among(cls, answers: Sequence[bool]) -> Rate:
        return cls.of(sum(answers), len(answers))


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return Wilson's score interval: unlike the usual one it stays within 0-1 and holds for few jobs."""
    share, z2 = hits / n, Z_95 * Z_95
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def f1(precision: Rate, recall: Rate) -> float | None:
    """Return the harmonic mean; 0 where nothing was found, None where either is unknown for another reason."""
    if not recall.n:
        return None
    if not recall.hits:
        return 0.0
    if precision.ratio is None or recall.ratio is None:
        return None
    return 2 * precision.ratio * recall.ratio / (precision.ratio + recall.ratio) if precision.hits else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """How large errors are: all None where there were none to measure."""

    n: int
    mean: float | None = None
    p95: float | None = None
    max: float | None = None
    bias: float | None = None  # the mean with signs: above zero, we say too much

    @classmethod
    def of(cls, errors: Sequence[float]) -> Spread:
        if not errors:
            return cls(0)
        sizes = np.abs(errors)
        return cls(
            len(errors),
            float(sizes.mean()),
            float(np.percentile(sizes, 95)),
            float(sizes.max()),
            float(np.mean(errors)),
        )
