"""Does utilization come back at one interval, and can that be what the job does, or only how it was sampled?

A wave of steps that is sampled too seldom shows another, slower wave, as clear as a true one: steps of 0.37 s at 1 Hz
look like 3.4 s. So a period counts only with five samples in it, four of it in the curve, an autocorrelation that noise
does not reach, and coherence: it is still there two and four periods on. Steps that vary by 3% and more lose that when
they are aliased, true periods do not. What is left between two and ten samples is possibly aliased all the same, unless
a log tells how long steps take. See docs/method.md, Curves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

LEAST_SAMPLES: Final = 5  # per period (method 3.2)
LEAST_CYCLES: Final = 4  # in the curve (method 3.2)
LEAST_SCORE: Final = 0.35  # autocorrelation (method 3.2)
NULL: Final = 5.0  # of 1/sqrt(n): 99% of AR(1) series with phi 0.5 stay below (method 3.2: n=120 .36 … 1800 .14)
SECOND: Final = 0.6  # of the score, that the second harmonic keeps (method 3.2)
FOURTH: Final = (
    0.7  # of the score, four periods on: 3% jitter leaves 0.8 of a true period, 0.6 of an alias of 10 samples
)
FALL: Final = 0.35  # of correlation, between no lag and the period: what only decays has no period
FUNDAMENTAL: Final = 0.25  # of the strongest harmonic's power: less, and the lag is a multiple of something faster
PEAK: Final = 0.55  # of the highest peak: where the period is no whole number of samples, its multiples are higher
HARMONICS: Final = 20  # that are looked at: a lag that is no more than so many periods of something faster is caught
CANDIDATES: Final = 12  # lags that are tried: the true one is among the shortest
ALIASED: Final = 10  # samples per period, below which it may be an alias (method 3.2)
DEEP: Final = (
    30.0  # points from the 5th to the 95th percentile: averaging leaves less than 15 of an alias of ten samples
)
EDGES: Final = 0.04  # of the samples between a quarter and three quarters, beyond one edge up and one down per period
SHARP: Final = 40  # samples per period from which steps would have to vary by less than 1.2% to be coherent aliased
ALIAS_NEAR: Final = 0.15  # of the period: that near to the alias of known steps it is one (method 3.2)
RESOLVED: Final = 2.5  # samples per step: above it steps are seen, not aliased
QUANTUM: Final = 1.0  # points^2, variance: utilization is told in whole points
MOST: Final = 16_384  # samples that are looked at, the last: the periods of longer curves are those of dips

Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Period:
    """An accepted period."""

    seconds: float
    score: float  # autocorrelation at it, 0-1
    aliased: bool  # it may be, or is, an alias of shorter steps


def period(values: Values, interval_s: float, step_s: float | None = None) -> Period | None:
    """Return the period of a curve; None where it has none.

    Args:
        values: at equal intervals, without gaps.
        interval_s: between two of them.
        step_s: how long a step takes, where a log tells.
    """
    x = values[-MOST:].astype(np.float64)
    n = len(x)
    if n < LEAST_SAMPLES * LEAST_CYCLES:
        return None
    ramp = np.linspace(-1, 1, n)
    x -= x.mean() + ramp * ((ramp * x).sum() / (ramp * ramp).sum())
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(x, size)) ** 2
    correlation = np.fft.irfft(power, size)[:n]
    if correlation[0] < QUANTUM * n:
        return None
    correlation *= n / (n - np.arange(n)) / correlation[0]
    for lag in _peaks(correlation, n)[:CANDIDATES]:
        found = _refined(power, size, lag)
        if found and _coherent(correlation, found):
            seconds = found * interval_s
            aliased = _unclear(values, found) if step_s is None else _beats(seconds, interval_s, step_s)
            return Period(seconds, float(min(correlation[lag], 1.0)), aliased)
    return None


def _peaks(correlation: NDArray[np.float64], n: int) -> list[int]:
    """Return the lags that can be a period, the shortest first."""
    last = n // LEAST_CYCLES
    lags = np.arange(2, last + 1)
    here = correlation[lags]
    high = (here > correlation[lags - 1]) & (here >= correlation[lags + 1])
    lowest = np.minimum.accumulate(correlation)[lags]
    high &= (here >= max(LEAST_SCORE, NULL / np.sqrt(n))) & (here - lowest >= FALL)
    if not high.any():
        return []
    return [int(lag) for lag in lags[high & (here >= PEAK * here[high].max())]]


def _refined(power: NDArray[np.float64], size: int, lag: int) -> float | None:
    """Return the period near a lag by the spectrum, in samples; None where something faster makes that lag."""
    low, high = int(size / (lag + 0.75)), int(np.ceil(size / (lag - 0.75)))
    best = low + int(np.argmax(power[low : high + 1]))
    width = max(size // (lag * 16), 1)
    if best == 0 or best + 1 >= len(power):
        return None
    before, here, after = power[best - 1 : best + 2]
    curved = before - 2 * here + after
    peak = best + (float(np.clip((before - after) / (2 * curved), -0.5, 0.5)) if curved < 0 else 0.0)
    whole = range(2, min((len(power) - 1) // best, HARMONICS) + 1)
    harmonics = [power[k * best - width : k * best + width + 1].max() for k in whole]
    if harmonics and power[best] < FUNDAMENTAL * max(harmonics):
        return None
    return size / peak if size / peak >= LEAST_SAMPLES - 0.25 else None


def _coherent(correlation: NDArray[np.float64], found: float) -> bool:
    """Say whether the period is still there after two and four of it, as far as the curve goes."""
    n = len(correlation)

    def at(periods: int) -> float:
        low, high = int(periods * found - 1), int(np.ceil(periods * found + 1))
        return float(correlation[low : high + 1].max())

    first = at(1)
    enough = 4 * found + 2 <= 0.6 * n
    return at(2) >= SECOND * first and (not enough or at(4) >= FOURTH * first)


def _unclear(values: Values, found: float) -> bool:
    """Say whether shorter steps may feign the period of so many samples, where nobody timed them.

    A counter that averages over the time between samples leaves little of steps whose alias is slow. One that sees a
    part of that time leaves them as deep, but their edges take as many samples as the counter sees of a step.
    """
    low, high = np.percentile(values, (5, 95))
    if found < ALIASED or high - low < DEEP:
        return True
    edge = (values > low + (high - low) / 4) & (values < high - (high - low) / 4)
    return found < SHARP and bool(np.mean(edge) > 1 / found + EDGES)


def _beats(seconds: float, interval_s: float, step_s: float) -> bool:
    """Say whether steps of this length, sampled at this interval, would show the period."""
    if step_s >= RESOLVED * interval_s:
        return False
    beat = abs(1 / step_s - round(interval_s / step_s) / interval_s)
    return beat > 0 and abs(seconds - 1 / beat) < ALIAS_NEAR * seconds
