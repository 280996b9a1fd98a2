"""Pictures made of random slices, as crowded as a page gets: for tests and benchmarks of what draws them."""

from __future__ import annotations

import numpy as np

from whyidle.model.finding import CAUSES
from whyidle.model.picture import Lane, LaneKind, Picture, Timeline

STEP = 100_000_000  # ns
KERNELS = tuple(f"void kernel_{number}<float, {number * 7}>(float*, int)" for number in range(40))
CALLS = tuple(f"aten::operator_{number}" for number in range(60))
NONE = np.zeros(0, np.float32)


def crowded(slices: int = 100_000, *, steps: int = 20, ranks: int = 1, seed: int = 7) -> Picture:
    """Return timelines with that many slices in all: steps, idle time, two streams, three threads that nest."""
    rng = np.random.default_rng(seed)
    return Picture(tuple(_timeline(rng, slices // ranks, steps, rank) for rank in range(ranks)))


def _timeline(rng: np.random.Generator, slices: int, steps: int, rank: int) -> Timeline:
    length = steps * STEP
    numbered = tuple(f"step {number}" for number in range(1, steps + 1))
    names = (*CAUSES, *KERNELS, *CALLS, *numbered)
    kernels, calls = len(CAUSES), len(CAUSES) + len(KERNELS)
    left = slices - steps
    lanes = [
        _lane("steps", "step", np.arange(steps) * STEP, np.arange(1, steps + 1) * STEP, names.index("step 1"), steps),
        _row(rng, "idle by cause", "idle", length, left // 5, 0.3, (0, len(CAUSES))),
        _row(rng, "stream 7", "stream", length, left // 5, 0.7, (kernels, calls)),
        _row(rng, "stream 20", "stream", length, left // 10, 0.2, (kernels, calls)),
        *(_nested(rng, f"thread {10 + at}", length, left // 6, (calls, calls + len(CALLS))) for at in range(3)),
    ]
    return Timeline(f"rank {rank}", f"rank{rank}.json", rank, 0, length, names, tuple(lanes))


def _lane(
    title: str,
    kind: LaneKind,
    start: np.ndarray,
    end: np.ndarray,
    first: int,
    names: int,
) -> Lane:
    count = len(start)
    name = (first + np.arange(count) % names).astype(np.int32)
    depth = np.zeros(count, np.uint8)
    return Lane(title, kind, start.astype(np.int64), end.astype(np.int64), name, depth, count, NONE)


def _row(
    rng: np.random.Generator, title: str, kind: LaneKind, length: int, count: int, busy: float, names: tuple[int, int]
) -> Lane:
    """Return slices that do not overlap, of all lengths."""
    parts = rng.lognormal(0, 1.5, count)
    bounds = np.concatenate([[0], np.cumsum(parts / parts.sum())]) * (length - 1)
    start = bounds[:-1].astype(np.int64)
    end = np.maximum((bounds[:-1] + np.diff(bounds) * busy).astype(np.int64), start + 1)
    lane = _lane(title, kind, start, end, 0, 1)
    return Lane(title, kind, start, end, rng.integers(*names, count).astype(np.int32), lane.depth, count, NONE)


def _nested(rng: np.random.Generator, title: str, length: int, count: int, names: tuple[int, int]) -> Lane:
    """Return slices each of which holds two smaller ones, six deep."""
    outer = max(count // 63, 1)
    width = length / outer
    start, end, depth = [], [], []
    for level in range(6):
        at = np.arange(outer * 2**level)
        low = at * width / 2**level
        start.append(low + level * 10)
        end.append(low + width / 2**level * (0.95 - level * 0.02))
        depth.append(np.full(len(at), level))
    starts, ends, depths = np.concatenate(start), np.concatenate(end), np.concatenate(depth)
    order = np.lexsort((-ends, starts))
    name = rng.integers(*names, len(order)).astype(np.int32)
    begun, over = starts[order].astype(np.int64), ends[order].astype(np.int64)
    return Lane(
        title, "thread", begun, np.maximum(over, begun + 1), name, depths[order].astype(np.uint8), len(order), NONE
    )
