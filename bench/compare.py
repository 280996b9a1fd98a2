"""How often the intervals of `whyidle compare` hold the truth, and what they find, beside what others do.

    python bench/compare.py            # about three minutes
    python bench/compare.py --pairs 200

Step times are AR(1) series (cv 5%) of which the true ratio is known, series with rare pauses, with evaluations that
both runs have in the same steps, that grow, and halves of one real recording. Beside ours, on the same series: Welch's
t-test of steps taken as independent, the same resampled one by one, and a fixed limit of 5% on medians, as gates in CI
have it.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whyidle.compare.bootstrap import ratio_of_means, ratio_of_medians, ratio_of_paired_means, vary_together
from whyidle.compare.equivalence import tost
from whyidle.compare.pace import pace_of
from whyidle.compare.student import student
from whyidle.judge import measured_of
from whyidle.read import load

Floats = NDArray[np.float64]
Limits = tuple[float, float]  # of the ratio of means
CV = 0.05
DELTA = 0.01  # an improvement is one of more than this, for sure
WATCHED = Path(__file__).parents[1] / "tests" / "runs" / "watched"


def ours(before: Floats, after: Floats) -> Limits:
    pairs = vary_together(before, after)
    found = ratio_of_paired_means(before, after) if pairs else ratio_of_means([before], [after])
    return found.low, found.high


def no_pairs(before: Floats, after: Floats) -> Limits:
    found = ratio_of_means([before], [after])
    return found.low, found.high


def our_medians(before: Floats, after: Floats) -> Limits:
    found = ratio_of_medians([before], [after])
    return found.low, found.high


def welch(before: Floats, after: Floats) -> Limits:
    """Return the interval of independent steps, by the delta method."""
    parts = [(x.std(ddof=1) / x.mean()) ** 2 / len(x) for x in (before, after)]
    half = student(0.975, min(len(before), len(after)) - 1) * math.sqrt(sum(parts))
    ratio = float(before.mean() / after.mean())
    return ratio * math.exp(-half), ratio * math.exp(half)


def one_by_one(before: Floats, after: Floats) -> Limits:
    """Return the interval of a bootstrap that draws single steps."""
    random = np.random.default_rng(0)
    means = [x[random.integers(0, len(x), (1000, len(x)))].mean(axis=1) for x in (before, after)]
    low, high = np.quantile(means[0] / means[1], [0.025, 0.975])
    return float(low), float(high)


def fixed(before: Floats, after: Floats) -> Limits:
    ratio = float(np.median(before) / np.median(after))
    return ratio - 0.05 + DELTA, ratio + 0.05 - DELTA


METHODS: dict[str, Callable[[Floats, Floats], Limits]] = {
    "whyidle": ours,
    "whyidle, no pairs": no_pairs,
    "whyidle, medians": our_medians,
    "Welch": welch,
    "one by one": one_by_one,
    "5% of medians": fixed,
}


def series(steps: int, phi: float, random: np.random.Generator, pauses: float = 0.0) -> Floats:
    """Return step times, s: AR(1) around 0.1 s; with a pause of ten steps' length in so many of them."""
    noise = random.normal(size=steps) * math.sqrt(1 - phi**2)
    noise[0] = random.normal()
    values = np.empty(steps)
    last = 0.0
    for k, part in enumerate(noise.tolist()):
        last = last * (phi if k else 1.0) + part
        values[k] = last
    return 0.1 * (1 + CV * values) + (random.random(steps) < pauses)


def scheduled(steps: int, random: np.random.Generator, every: int = 60) -> Floats:
    """Return step times with an evaluation every so many, as long as 15 steps; both runs have it in the same ones."""
    values = series(steps, 0.3, random)
    count = len(values[every - 1 :: every])
    values[every - 1 :: every] += random.normal(1.5, 0.15, count).clip(0.1)
    return values


def growing(steps: int, random: np.random.Generator) -> Floats:
    """Return step times that double, as where sequences become longer."""
    return series(steps, 0.3, random) * (1 + np.arange(steps) / steps)


def row(name: str, draw: Callable[[np.random.Generator], Floats], pairs: int, gain: float, seed: int) -> None:
    """Print how often an interval holds the truth, equal pairs seem improved, and a gain is found."""
    random = np.random.default_rng(seed)
    drawn = [(draw(random), draw(random)) for _ in range(pairs)]
    for method, limits in METHODS.items():
        equal = [limits(one, other) for one, other in drawn]
        gained = [limits(one, other / (1 + gain)) for one, other in drawn]
        covers = sum(low <= 1 <= high for low, high in equal) / pairs
        false = sum(low > 1 + DELTA for low, _ in equal) / pairs
        found = sum(low > 1 + DELTA for low, _ in gained) / pairs
        print(f"{name:28}{method:20}{covers:9.1%}{false:16.2%}{found:14.1%}", flush=True)


def halves(times: int = 20) -> Iterator[tuple[Floats, Floats]]:
    """Yield two halves of a real recording, of each pair of tens one each by chance: there is no change to be found."""
    random = np.random.default_rng(11)
    for folder in sorted(WATCHED.iterdir()):
        run = load(folder)
        pace = pace_of(run, measured_of(run))
        if pace is None or len(pace.steady) < 60:
            continue
        pairs = pace.steady[: len(pace.steady) // 20 * 20].reshape(-1, 2, 10)
        rows = np.arange(len(pairs))
        for _ in range(times):
            first = random.integers(0, 2, len(pairs))
            yield pairs[rows, first].ravel(), pairs[rows, 1 - first].ravel()


def equivalence(pairs: int) -> None:
    """Print how often losses of equal runs, and of one that is 1% worse, are said to be the same."""
    random = np.random.default_rng(7)
    print(f"\n{'paired losses, 200 steps':48}{'same':>10}")
    for name, worse in (("equal", 0.0), ("1% worse", 0.01)):
        for phi in (0.0, 0.6):
            found = 0
            for _ in range(pairs):
                noise = (series(200, phi, random) - 0.1) / (0.1 * CV) * 0.005  # of a loss of 2: 0.25%
                found += tost(noise + 2.0 * worse, 0.005 * 2.0).holds
            print(f"{f'{name}, phi {phi:g}':48}{found / pairs:10.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--steps", type=int, nargs="*", default=[200, 500, 2000])
    options = parser.parse_args()
    began = time.process_time()
    print(f"{'steps':28}{'method':20}{'covers':>9}{'false improved':>16}{'finds 3%':>14}")
    for steps in options.steps:
        for phi in (0.0, 0.3, 0.6, 0.8):
            pairs = options.pairs if steps == 500 else options.pairs // 4
            row(f"{steps}, phi {phi:g}", lambda r, n=steps, p=phi: series(n, p, r), pairs, 0.03, steps)  # type: ignore[misc]
    row("500, 2% of them pauses", lambda r: series(500, 0.0, r, 0.02), options.pairs // 4, 0.03, 1)
    row("300, evaluates, gains 5%", lambda r: scheduled(300, r), options.pairs // 4, 0.05, 2)
    row("300 that grow, gain 5%", lambda r: growing(300, r), options.pairs // 4, 0.05, 3)
    equivalence(options.pairs // 4)
    print("\nhalves of one real recording")
    for method, limits in METHODS.items():
        found = [limits(one, other) for one, other in halves()]
        told = sum(low > 1 + DELTA or high < 1 / (1 + DELTA) for low, high in found)
        print(f"{method:20}a change is seen in {told} of {len(found)}")
    print(f"{time.process_time() - began:.0f} s of CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
