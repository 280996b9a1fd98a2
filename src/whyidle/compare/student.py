"""Quantiles of Student's t, for intervals whose variance was itself estimated from few values."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

NORMAL: Final = NormalDist()


def student(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t with so many degrees of freedom, which are rounded down.

    One and two have closed forms; from three on it is the expansion in 1/freedom of Abramowitz and Stegun, 26.7.5,
    within 0.4% for probabilities up to 0.99 (tests/compare/test_student.py holds it against scipy).

    Args:
        probability: 0-1, exclusive.
        freedom: degrees of freedom; below one counts as one.
    """
    v = max(math.floor(freedom), 1)
    if v == 1:
        return math.tan(math.pi * (probability - 0.5))
    if v == 2:
        return (2 * probability - 1) * math.sqrt(2 / (4 * probability * (1 - probability)))
    z = NORMAL.inv_cdf(probability)
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + math.fsum(term / v**power for power, term in enumerate(terms, 1))
