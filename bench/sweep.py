"""Does `whyidle sweep --strategy workers` find the workers that a grid finds, and `--strategy batch` the batch size?

`python bench/sweep.py` draws jobs of which it is known how fast they are with any number of workers (loaders.py, which
shares nothing with the model that the strategy has of a loader), lets the strategy ask for cells, measured with noise
and with gaps, and compares the recommended one with the best of a grid; next to rules of thumb and searches that only
look at throughput. Batch sizes likewise, on curves that saturate and memory that ends. `--first 0` scores the seeds
that the thresholds were chosen on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from loaders import KINDS, Job, Ran, drawn, ran  # noqa: E402
from whyidle.model.comparison import Interval  # noqa: E402
from whyidle.model.trial import Cell  # noqa: E402
from whyidle.sweep.parameters import Parameter  # noqa: E402
from whyidle.sweep.recommend import recommend  # noqa: E402
from whyidle.sweep.strategies import Machine, Strategy, strategy  # noqa: E402

GOOD = 0.95  # of the grid's best throughput
NEAR = 0.02  # a cell that is so much slower than the best is not told from it
NOISE = 0.01  # sd of a measured mean step, between runs
HELD_OUT = 1000  # seeds from here on were not looked at while thresholds were chosen
ROOM = 0.9  # of the memory: a batch size that fills more of it is none to recommend
PROBES = 4
LARGER = 4  # value, up to which a job is easy: a guess of 4 workers does


def parameter(name: str, *values: str, present: str | None = None) -> Parameter:
    return Parameter(name, values, "option", f"--{name}", "", present=present)


@dataclass(frozen=True)
class Score:
    """One search in one job."""

    kind: str
    seed: int
    who: str
    ratio: float  # throughput of what it chose over the grid's best
    probes: int
    chosen: int
    fewest: int  # value whose throughput is within 2% of the best


def best_of(cells: Sequence[Cell], name: str) -> int:
    """Return the value that the sweep recommends."""
    params, why = recommend(cells, [parameter(name)])
    assert params is not None, why
    return int(params[name])


def searched(search: Strategy, measure: Callable[[int], Cell], name: str) -> tuple[Cell, ...]:
    """Return the cells that a strategy asks for."""
    cells: tuple[Cell, ...] = ()
    while (params := search.following(cells, ())) is not None:
        cells = (*cells, measure(int(params[name])))
    return cells


def grid(cpus: int) -> list[int]:
    """Return the workers of an exhaustive grid: all up to 8, then each a quarter more."""
    found = [0]
    while found[-1] < cpus:
        found.append(min(found[-1] + max(found[-1] // 4, 1), cpus))
    return found


class Bed:
    """A job with what is known of it, and what a sweep would measure."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.known: dict[int, Ran] = {}
        gaps = np.random.default_rng((job.seed, 7)).random(3)
        self.no_fetch, self.no_wait, self.no_cpu = gaps[0] < 0.1, gaps[1] < 0.05, gaps[2] < 0.2

    def truth(self, workers: int) -> Ran:
        if workers not in self.known:
            self.known[workers] = ran(self.job, workers)
        return self.known[workers]

    def cell(self, workers: int) -> Cell:
        """Return what a sweep would measure."""
        true = self.truth(workers)
        r = np.random.default_rng((self.job.seed, workers, KINDS.index(self.job.kind)))
        step = true.step * math.exp(r.normal(0, NOISE))
        fetch = true.fetch * math.exp(r.normal(0, 0.03))
        return Cell(
            params={"num_workers": str(workers)},
            status="ok",
            step_time_mean_s=Interval(step * (1 - 2 * NOISE), step, step * (1 + 2 * NOISE)),
            throughput=Interval((1 - 2 * NOISE) / step, 1 / step, (1 + 2 * NOISE) / step),
            data_wait_share=None if self.no_wait else float(np.clip(true.wait + r.normal(0, 0.005), 0, 1)),
            fetch_s=None if self.no_fetch else fetch,
            fetch_cv=None if self.no_fetch else true.fetch_cv * math.exp(r.normal(0, 0.1)),
            fetch_cpu_s=None if self.no_fetch or self.no_cpu else fetch * true.fetch_cpu / true.fetch,
            io_wait_share=None if self.no_cpu else true.blocked,
            cpu_busy_share=None if self.no_cpu else min(true.cpu_busy * math.exp(r.normal(0, 0.03)), 1.0),
        )

    def score(self, who: str, tried: Sequence[int], chosen: int | None = None) -> Score:
        """Return how a choice does; without one it is the best of the cells that were tried."""
        if chosen is None:
            chosen = best_of([self.cell(workers) for workers in tried], "num_workers")
        of_grid = {workers: 1 / self.truth(workers).step for workers in grid(self.job.cpus)}
        best = max(of_grid.values())
        fewest = min(workers for workers, pace in of_grid.items() if pace >= (1 - NEAR) * best)
        ratio = 1 / self.truth(chosen).step / best
        return Score(self.job.kind, self.job.seed, who, ratio, len(set(tried)), chosen, fewest)


def of_job(job: Job) -> list[Score]:
    """Return how everyone does in a job."""
    bed, cpus = Bed(job), job.cpus
    machine = Machine(cpus=float(cpus * job.ranks), ranks=job.ranks)
    more = () if job.prefetch == 2 else (parameter("prefetch_factor", "4"),)
    present = str(np.random.default_rng((job.seed, 8)).choice([0, 0, 0, 1, 2, 4, 8]))  # that the job has
    given = (parameter("num_workers", present=present), *more)
    fixed = {other.name: other.values[0] for other in given[1:]}

    def measure(workers: int) -> Cell:
        cell = bed.cell(workers)
        return replace(cell, params={**cell.params, **fixed})

    cells = searched(strategy("workers", given, machine), measure, "num_workers")
    return [
        bed.score("whyidle", [int(cell.params["num_workers"]) for cell in cells]),
        bed.score("4 per GPU", [min(4, cpus)], min(4, cpus)),
        bed.score("all CPUs", [cpus], cpus),
        bed.score("formula", *by_formula(bed)),
        bed.score("doubling", doubled(bed)),
        bed.score("golden section", golden(bed)),
    ]


def by_formula(bed: Bed) -> tuple[list[int], int]:
    """Return W = 1.15 (1 + cv) prep / T, rounded up, of a cell with 4 workers; without times of batches these."""
    first = min(4, bed.job.cpus)
    cell = bed.cell(first)
    step = cell.step_time_mean_s
    if cell.fetch_s is None or cell.data_wait_share is None or step is None:
        return [first], first
    own = step.likely * (1 - cell.data_wait_share)
    wanted = math.ceil(1.15 * (1 + (cell.fetch_cv or 0.0)) * cell.fetch_s / max(own, 1e-9))
    return [first], min(wanted, max(bed.job.cpus - 2, 1))


def doubled(bed: Bed) -> list[int]:
    """Return 1, 2, 4, 8 for as long as throughput gains 2%."""
    tried = [1]
    while len(tried) < PROBES and 2 * tried[-1] <= bed.job.cpus:
        tried.append(2 * tried[-1])
        was, now = (bed.cell(workers).throughput for workers in tried[-2:])
        if was is not None and now is not None and now.likely < (1 + NEAR) * was.likely:
            break
    return tried


def golden(bed: Bed) -> list[int]:
    """Return what a golden-section search for the highest throughput asks for."""
    low, high, part = 0.0, float(bed.job.cpus), (math.sqrt(5) - 1) / 2
    tried: list[int] = []

    def pace(at: float) -> float:
        if round(at) not in tried:
            tried.append(round(at))
        found = bed.cell(round(at)).throughput
        return 0.0 if found is None else found.likely

    while len(tried) < PROBES and high - low > 1:
        left, right = high - part * (high - low), low + part * (high - low)
        low, high = (low, right) if pace(left) >= (1 - NEAR) * pace(right) else (left, high)
    return tried[:PROBES]


def of_batch(seed: int) -> list[Score]:
    """Return how the doubling of batch sizes does: throughput b / (fixed + each b), memory that ends."""
    r = np.random.default_rng((99, seed))
    start, half = int(2 ** r.integers(2, 6)), float(2 ** r.uniform(2, 11))
    has = 80 * 2**30
    model, each = has * r.uniform(0.02, 0.6), has / float(2 ** r.uniform(5, 14))
    slower = float(r.choice([0.0, 0.0, r.uniform(0, 0.03)]))  # of throughput per doubling, where caches are outgrown

    def pace(batch: int) -> float:
        return batch / (half + batch) * (1 - slower) ** math.log2(batch)

    def measure(batch: int) -> Cell:
        params, memory = {"batch_size": str(batch)}, model + each * batch
        if memory > has:
            return Cell(params, "out of memory", memory_bytes=has)
        noisy = pace(batch) * math.exp(np.random.default_rng((seed, batch)).normal(0, NOISE))
        limits = Interval(noisy * (1 - 2 * NOISE), noisy, noisy * (1 + 2 * NOISE))
        step = Interval(batch / limits.high, batch / noisy, batch / limits.low)
        return Cell(
            params, "ok", step_time_mean_s=step, throughput=limits, throughput_unit="samples",
            peak_memory_bytes=int(memory), memory_bytes=has,
        )  # fmt: skip

    path = [start * 2**k for k in range(15)]
    all_sizes = [
        size for k in path for size in (k, k * 3 // 2) if size <= path[-1] and model + each * size <= ROOM * has
    ]
    if not all_sizes:
        return []
    cells = searched(strategy("batch", (parameter("batch_size", str(start)),), Machine()), measure, "batch_size")
    best = max(map(pace, all_sizes))
    fewest = min(size for size in all_sizes if pace(size) >= (1 - NEAR) * best)
    chosen = best_of(cells, "batch_size")
    largest = max(size for size in path if model + each * size <= has)
    # a search that doubles until it fails asks for one more
    until = path.index(largest) + 2
    return [
        Score("batch", seed, "whyidle", pace(chosen) / best, len(cells), chosen, fewest),
        Score("batch", seed, "largest that fits", pace(largest) / best, until, largest, fewest),
    ]


def table(scores: Sequence[Score]) -> str:
    """Return the board: the part of the jobs that are within 5% of the grid's best.

    Beside it the mean number of cells, the ratio that 5% of the jobs fall short of, and the median of how many
    times the smallest value that is as good was chosen.
    """
    kinds, people = list(dict.fromkeys(s.kind for s in scores)), list(dict.fromkeys(s.who for s in scores))
    width = max(map(len, people))
    heads = " ".join(f"{kind:>9}" for kind in kinds)
    above = f"above {LARGER}"
    lines = [f"{'':{width}} {'all':>6} {'cells':>6} {'worst 5%':>9} {'value':>6} {above:>8}  {heads}"]
    for who in people:
        mine = [score for score in scores if score.who == who]
        ratios = np.array([score.ratio for score in mine])
        times = float(np.median([(score.chosen + 1) / (score.fewest + 1) for score in mine]))
        larger = [score.ratio >= GOOD for score in mine if score.fewest > LARGER]
        by_kind = (np.mean([score.ratio >= GOOD for score in mine if score.kind == kind]) for kind in kinds)
        lines.append(
            f"{who:{width}} {np.mean(ratios >= GOOD):6.1%} {np.mean([s.probes for s in mine]):6.2f} "
            f"{np.quantile(ratios, 0.05):9.3f} {times:6.2f} {np.mean(larger or [math.nan]):8.1%}  "
            + " ".join(f"{part:9.1%}" for part in by_kind)
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="jobs of each kind")
    parser.add_argument("--first", type=int, default=HELD_OUT, help="seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="JSON of every score")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.count)
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = pool.map(of_job, [drawn(kind, seed) for kind in KINDS for seed in seeds])
        scores = [score for some in found for score in some]
    batches = [score for seed in range(asked.first, asked.first + 6 * asked.count) for score in of_batch(seed)]
    print(f"workers: {len(KINDS) * asked.count} jobs\n{table(scores)}\n")
    print(f"batch size: {len(batches) // 2} jobs\n{table(batches)}")
    if asked.out:
        asked.out.write_text(json.dumps([asdict(score) for score in scores + batches]))


if __name__ == "__main__":
    main()
