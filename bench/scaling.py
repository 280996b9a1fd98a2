"""How often the range of `whyidle scaling` holds what twice the GPUs do, on made-up jobs that scale by known laws.

    python bench/scaling.py [JOBS]

Each job has a law with coefficients drawn at random, and its throughput is measured to 1% at each size. Four laws are
those that whyidle fits. Of the fifth it knows nothing: the loss jumps where the job leaves its node of eight GPUs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import numpy as np

from whyidle.compare.doubling import gain
from whyidle.model.comparison import Interval

SIZES = ((1, 2), (1, 4), (1, 8), (1, 2, 4), (8, 16, 32), (1, 2, 4, 8), (1, 2, 4, 8, 16))
NOISE = 0.01  # of throughput, standard deviation
NODE = 8
Law = Callable[[int], float]


def laws(random: np.random.Generator) -> dict[str, Law]:
    """Return throughput by number of GPUs, by the name of the law."""
    serial, pairs = 10 ** random.uniform(-3, -0.7), 10 ** random.uniform(-4.5, -2)
    return {
        "amdahl": lambda n: n / (1 + serial * (n - 1)),
        "universal": lambda n: n / (1 + serial * (n - 1) + pairs * n * (n - 1)),
        "tree": lambda n: n / (1 + 2 * serial * math.log2(n)),
        "ring": lambda n: n / (1 + 4 * serial * (n - 1) / n),
        "node": lambda n: n / (1 + serial * (n > 1) + 3 * serial * (n > NODE)),
    }


def trial(law: Law, sizes: Sequence[int], random: np.random.Generator) -> tuple[bool, float]:
    """Return whether the range holds the true gain, and by how much the likely value misses it."""
    points = []
    for gpus in sizes:
        rate = law(gpus) * math.exp(random.normal(0, NOISE))
        points.append((gpus, Interval(rate * math.exp(-1.96 * NOISE), rate, rate * math.exp(1.96 * NOISE))))
    found = gain(points)
    truth = law(2 * sizes[-1]) / points[-1][1].likely
    return found.low <= truth <= found.high, abs(found.likely / truth - 1)


def main(jobs: int) -> None:
    """Print both for each law and choice of sizes."""
    random = np.random.default_rng(0)
    print("range holds the truth / likely value misses it by (mean)")
    for sizes in SIZES:
        cells: dict[str, list[tuple[bool, float]]] = {}
        for _ in range(jobs):
            for name, law in laws(random).items():
                cells.setdefault(name, []).append(trial(law, sizes, random))
        told = (
            f"{name} {np.mean([held for held, _ in found]):.0%} / {np.mean([error for _, error in found]):.1%}"
            for name, found in cells.items()
        )
        print(f"{','.join(map(str, sizes)):<12}", *(f"{cell:<24}" for cell in told))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
