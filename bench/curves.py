"""How good is the analysis of curves, and what does it cost? Columns made here, no file: reading is bench/ingest.py's.

python bench/curves.py            # periods of 1,000 null or aliased curves, and of 1,000 true ones; then CPU seconds
python bench/curves.py --periods  # only the first
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter

import numpy as np

from whyidle.measure.curve import measure
from whyidle.measure.curve.period import LEAST_SAMPLES, period
from whyidle.model.evidence import Curve, Run, Series

GRID = 0.01  # s: the wave is drawn this fine before it is sampled


def sampled(rng, n, interval, step, busy, window, jitter):
    """Return utilization of steps that are busy for a part and then idle, as a counter with this window shows it."""
    count = int(n * interval / step * 1.2) + 5
    lengths = step * np.maximum(1 + jitter * rng.normal(size=count), 0.1)
    starts = np.concatenate(([0.0], np.cumsum(lengths)))
    fine = np.arange(0, n * interval + window, GRID)
    at = np.searchsorted(starts, fine, "right") - 1
    on = (fine - starts[at]) < busy * lengths[np.minimum(at, count - 1)]
    total = np.concatenate(([0.0], np.cumsum(on)))
    ends = ((np.arange(n) * interval + window) / GRID).astype(int)
    return 100 * (total[ends] - total[ends - int(window / GRID)]) / int(window / GRID)


def null(rng, kind, n):
    """Return a curve that has no period."""
    if kind == "white":
        x = 50 + 20 * rng.normal(size=n)
    elif kind == "random walk":
        x = 50 + np.cumsum(rng.normal(size=n)) * 4
    elif kind == "shot noise":
        x = 95 - 90 * np.clip(np.convolve(rng.random(n) < 0.08, np.ones(rng.integers(1, 6)))[:n], 0, 1)
    else:
        phi, x = rng.uniform(0.3, 0.8), rng.normal(size=n + 50)
        for i in range(1, len(x)):
            x[i] += phi * x[i - 1]
        x = 50 + 15 * x[50:]
    return np.clip(x, 0, 100)


def false_periods(count, seed=1):
    """Return curves by kind, and of how many a period is claimed, or told as possibly aliased, though there is none."""
    rng, told, claimed, of = np.random.default_rng(seed), Counter(), Counter(), Counter()
    kinds = ("white", "AR(1)", "random walk", "shot noise", "aliased, window 1 s", "aliased, window 1/6 s")
    for i in range(count):
        kind, n = kinds[i % len(kinds)], int(rng.choice([60, 120, 300, 600, 1800, 3600]))
        if kind.startswith("aliased"):
            window = 1.0 if kind.endswith("1 s") else 1 / 6
            jitter = rng.uniform(0.0, 0.06)
            x = sampled(rng, n, 1.0, rng.uniform(0.1, 1.9), rng.uniform(0.2, 0.8), window, jitter)
            x = np.clip(x + rng.normal(size=n) * 2, 0, 100)
        else:
            x = null(rng, kind, n)
        found = period(x.astype(np.float32), 1.0)
        of[kind] += 1
        told[kind] += found is not None
        claimed[kind] += found is not None and not found.aliased
    return of, claimed, told


def false_share(count, seed=1):
    """Return the share of null and aliased curves of which a period is claimed."""
    return false_periods(count, seed)[1].total() / count


def show_false(count):
    of, claimed, told = false_periods(count)
    print(f"{'false periods of':24} {'curves':>7} {'claimed':>8} {'told as possibly aliased':>25}")
    for kind in of:
        print(f"{kind:24} {of[kind]:7} {claimed[kind] / of[kind]:8.1%} {(told[kind] - claimed[kind]) / of[kind]:25.1%}")
    print(f"{'all':24} {count:7} {claimed.total() / count:8.1%} {(told.total() - claimed.total()) / count:25.1%}")


def true_periods(count, seed=2):
    """Return how many periods of five samples and more are found, found to 5%, and without doubt; and the missed."""
    rng, found, right, claimed = np.random.default_rng(seed), 0, 0, 0
    missed = Counter()
    for _ in range(count):
        step = np.exp(rng.uniform(np.log(LEAST_SAMPLES), np.log(120)))
        n = int(step * rng.uniform(6, 40)) + 20
        x = sampled(rng, n, 1.0, step, rng.uniform(0.2, 0.8), float(rng.choice([1.0, 1 / 6])), 0.03)
        x = np.clip(x + rng.normal(size=n) * rng.uniform(0, 8), 0, 100)
        one = period(x.astype(np.float32), 1.0)
        found += one is not None
        good = one is not None and abs(one.seconds - step) < 0.05 * step
        right += good
        claimed += good and not one.aliased
        if not good:
            missed["wrong" if one else "none", "5-6" if step < 6 else "6-10" if step < 10 else "10-"] += 1
    return found, right, claimed, missed


def true_share(count, seed=2):
    """Return the share of true periods that are found to 5%."""
    return true_periods(count, seed)[1] / count


def show_true(count):
    found, right, sure, missed = true_periods(count)
    print(f"\ntrue periods of {count}: {found / count:.1%} found, {right / count:.1%} to 5%, {sure / count:.1%} sure")
    print("missed, by samples per period:", dict(missed))


def cost(gpus, samples, interval):
    """Print what it takes to measure so many GPUs."""
    rng = np.random.default_rng(3)
    time_ns = 1_700_000_000_000_000_000 + (np.arange(samples) * interval * 1e9).astype(np.int64)
    wave = np.where(time_ns // 1_000_000_000 % 307 < 250, 97.0, 0.0)
    series = []
    for device in range(gpus):
        busy = np.clip(wave + rng.normal(size=samples).astype(np.float32) * 5, 0, 100)
        node = f"node{device // 8}"
        columns = {
            "utilization_percent": busy, "memory_used_bytes": busy * 4e8, "power_w": 80 + busy * 5,
            "sm_clock_mhz": 1000 + busy * 7, "temperature_c": 40 + busy / 3, "throttle_reasons": busy // 99 * 4,
            "sm_active_share": busy / 200, "tensor_active_share": busy / 400,
        }  # fmt: skip
        series += [Series(name, node, time_ns, value, device % 8) for name, value in columns.items()]
    run = Run(curves=(Curve("bench.csv", "csv", tuple(series)),))
    before, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = measure(run)
    used = time.process_time() - before
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024
    numbers = len(found.measurements)
    print(f"{gpus:4} GPUs x {samples:6,} samples: {used:5.2f} s of CPU, {more:4.0f} MiB more, {numbers} numbers")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--periods", action="store_true")
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    started = time.process_time()
    show_false(options.count)
    show_true(options.count)
    print(f"{time.process_time() - started:.1f} s of CPU\n")
    if not options.periods:
        cost(8, 86_400, 1.0)
        cost(512, 43_200, 60.0)


if __name__ == "__main__":
    main()
