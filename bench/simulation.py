"""How fast does the world run? Simulated kernels per second on one core, writing excluded, next to the goal.

python bench/simulation.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import world
from world.simulation import run

GOAL = 30_000  # simulated kernels per second
LEAST = 2.0  # seconds of CPU time for each line


def main() -> None:
    print(f"{'job':24}{'kernels':>10}{'CPU s':>8}{'per second':>12}{'of the goal':>13}")
    for family in world.FAMILIES:
        for ranks in (1, 8):
            job = world.healthy(family, "A100", ranks)
            kernels, began = 0, time.process_time()
            while (took := time.process_time() - began) < LEAST:
                kernels += run(job).launched
            rate = kernels / took
            print(f"{family + f', {ranks} ranks':24}{kernels:10,}{took:8.2f}{rate:12,.0f}{rate / GOAL:12.1f}x")


if __name__ == "__main__":
    main()
