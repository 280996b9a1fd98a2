"""What twice the GPUs would do: laws of scaling, fitted to the sizes that were measured.

n GPUs take n / X(n) GPU-seconds for a unit of work. By Amdahl's law that is a + b (n - 1): part of the work does not
become faster. Where each GPU also has to do with every other, c n (n - 1) comes on top (Gunther's Universal Scalability
Law). No coefficient is negative. Fits are held to the largest size: what they tell is the gain beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64

# Which terms a law has, of a constant, n - 1 and n (n - 1).
AMDAHL: Final = (0, 1)
CROSSTALK: Final = (0, 2)
UNIVERSAL: Final = (0, 1, 2)
FEW: Final = 3  # sizes: with fewer nobody knows how the loss grows


def gain(sizes: Sequence[tuple[int, Interval]]) -> Interval:
    """Return by how much twice the GPUs of the largest size would raise its throughput.

    Args:
        sizes: GPUs and throughput, the smallest first; two or more. Of two the likely value is Amdahl's law; the range
            goes from a loss that grows with every pair of GPUs to one that does not grow any more.
    """
    *_, (_, last) = sizes
    ends = [end for end in (last.low, last.high) if 0 < end < math.inf]
    points = [(gpus, throughput.likely) for gpus, throughput in sizes]
    few = len(points) < FEW
    likely = _gain(points, AMDAHL if few else UNIVERSAL)
    found = [likely]
    for end in (last.likely, *ends):
        moved = [*points[:-1], (points[-1][0], end)]
        if few:
            found += [_gain(moved, AMDAHL), _gain(moved, CROSSTALK)]
        else:
            found += [_gain(some, law) for some in _parts(moved) for law in (AMDAHL, UNIVERSAL)]
    return Interval(min(found), likely, 2.0 if few else max(found))


def _parts(points: Sequence[tuple[int, float]]) -> Iterator[Sequence[tuple[int, float]]]:
    """Yield all sizes, and all but each of them: the largest always stays."""
    yield points
    for left_out in range(len(points) - 1):
        yield [point for place, point in enumerate(points) if place != left_out]


def _gain(points: Sequence[tuple[int, float]], law: tuple[int, ...]) -> float:
    gpus = points[-1][0]
    now, then = _terms(np.array([gpus, 2 * gpus])) @ fit(points, law)
    return 2 * float(now / then)


def fit(points: Sequence[tuple[int, float]], law: tuple[int, ...] = UNIVERSAL) -> Floats64:
    """Return the coefficients a, b, c of a law, none negative, with the least relative error (least squares).

    Args:
        points: GPUs and throughput.
        law: which of the three it has; the others are 0.
    """
    gpus = np.array([n for n, _ in points], np.float64)
    cost = gpus / np.array([throughput for _, throughput in points])
    terms = _terms(gpus) / cost[:, None]
    best, least = np.zeros(3), math.inf
    for count in range(1, min(len(law), len(points)) + 1):
        for some in combinations(law, count):
            found = np.zeros(3)
            found[list(some)] = np.linalg.lstsq(terms[:, some], np.ones(len(points)), rcond=None)[0]
            error = float(((terms @ found - 1) ** 2).sum())
            if (found >= 0).all() and error < least - 1e-12:
                best, least = found, error
    return best


def _terms(gpus: Floats64) -> Floats64:
    return np.stack([np.ones(len(gpus)), gpus - 1, gpus * (gpus - 1)], axis=1)
