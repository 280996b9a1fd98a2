"""What twice the GPUs would do: laws of scaling, fitted to the sizes that were measured.

n GPUs take n / X(n) GPU-seconds for a unit of work: a constant, and what grows with n. By Amdahl's law that is n - 1:
part of the work does not become faster. Where each GPU has to do with every other it is n (n - 1), with both it is
Gunther's Universal Scalability Law. A collective grows less: as log n along a tree, as (n - 1) / n around a ring. No
coefficient is negative. Fits are held to the largest size: what they tell is the gain beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np

from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64

Points: TypeAlias = Sequence[tuple[int, float]]  # GPUs and throughput

# Which terms a law has, of: a constant, n - 1, n (n - 1), log2 n, (n - 1) / n.
AMDAHL: Final = (0, 1)
CROSSTALK: Final = (0, 2)
UNIVERSAL: Final = (0, 1, 2)
TREE: Final = (0, 3)
RING: Final = (0, 4)
LAWS: Final = (AMDAHL, TREE, RING, UNIVERSAL)
FEW: Final = 3  # sizes: with fewer nobody knows how the loss grows
PLAUSIBLE: Final = 0.02  # of throughput, rms: a law that is worse than the best by less may be the true one (judgement)


def gain(sizes: Sequence[tuple[int, Interval]]) -> Interval:
    """Return by how much twice the GPUs of the largest size would raise its throughput, and the range of the laws.

    Args:
        sizes: GPUs and throughput, the smallest first; two or more. Of two the likely value is Amdahl's law; the range
            goes from a loss that grows with every pair of GPUs to one that does not grow any more.
    """
    *_, (_, last) = sizes
    low, high = (last.low, last.high) if 0 < last.low <= last.high < math.inf else (last.likely, last.likely)
    points = [(gpus, throughput.likely) for gpus, throughput in sizes]
    moved = [[*points[:-1], (points[-1][0], end)] for end in (last.likely, low, high)]
    if len(points) < FEW:
        likely = gain_by(AMDAHL, points)
        found = [likely, 2.0, *(gain_by(law, some) for some in moved for law in (AMDAHL, CROSSTALK))]
    else:
        errors = [error(law, points) for law in LAWS]
        likely = gain_by(LAWS[int(np.argmin(errors))], points)
        laws = [law for law, worse in zip(LAWS, errors, strict=True) if worse <= min(errors) + PLAUSIBLE]
        found = [likely, *(gain_by(law, some) for law in laws for around in moved for some in _parts(around))]
    return Interval(min(found) * (low / last.likely), likely, max(found) * (high / last.likely))


def _parts(points: Points) -> Iterator[Points]:
    """Yield all sizes, and all but each of them: the largest always stays."""
    yield points
    for left_out in range(len(points) - 1):
        yield [point for place, point in enumerate(points) if place != left_out]


def gain_by(law: tuple[int, ...], points: Points) -> float:
    """Return by how much twice the GPUs of the last of these sizes would raise its throughput by this law."""
    gpus = points[-1][0]
    now, then = _terms(np.array([gpus, 2 * gpus])) @ fit(points, law)
    return 2 * float(now / then)


def error(law: tuple[int, ...], points: Points) -> float:
    """Return by how much the law misses these sizes, of their throughput, root of the mean square."""
    return float(np.sqrt(np.mean(_missed(points, fit(points, law)) ** 2)))


def fit(points: Points, law: tuple[int, ...] = UNIVERSAL) -> Floats64:
    """Return the coefficients of all terms, none negative, with the least relative error; 0 outside the law."""
    scaled = _scaled(points)
    best, least = np.zeros(scaled.shape[1]), math.inf
    for count in range(1, min(len(law), len(points)) + 1):
        for some in combinations(law, count):
            found = np.zeros(scaled.shape[1])
            found[list(some)] = np.linalg.lstsq(scaled[:, some], np.ones(len(points)), rcond=None)[0]
            missed = float((_missed(points, found) ** 2).sum())
            if (found >= 0).all() and missed < least - 1e-12:
                best, least = found, missed
    return best


def _missed(points: Points, coefficients: Floats64) -> Floats64:
    return np.asarray(_scaled(points) @ coefficients - 1)


def _scaled(points: Points) -> Floats64:
    """Return the terms of each size over its GPU-seconds for a unit of work: a law that holds sums to 1."""
    gpus = np.array([n for n, _ in points], np.float64)
    return np.asarray(_terms(gpus) * (np.array([rate for _, rate in points]) / gpus)[:, None])


def _terms(gpus: Floats64) -> Floats64:
    return np.stack([np.ones(len(gpus)), gpus - 1, gpus * (gpus - 1), np.log2(gpus), (gpus - 1) / gpus], axis=1)
