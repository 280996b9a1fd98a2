"""What keeps a loader from being faster with more workers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from whyidle.model.loader_trial import Limit, Point

GROWS: Final = 1.25  # twice the workers give so much more, or they do not help (judgement; short measures vary by 10%)
FULL: Final = 0.85  # of the CPUs (method: above 90% there is nothing left; a measure of seconds varies by 5%)
CROWDED: Final = 0.3  # of a batch's time is waiting for a CPU (judgement): others want it, too
WAITS: Final = 0.5  # of a batch's time that is no computing: then it waits, for storage or for a lock


def limit_of(points: Sequence[Point], ceiling: float | None, cpus: float | None) -> Limit | None:
    """Return what limits the loader; None where it keeps up with the training, or too little is known.

    Args:
        points: that gave batches.
        ceiling: what the training takes for a batch without loading, s; None is not known.
        cpus: of this rank.
    """
    by_workers: dict[int, Point] = {}
    for point in points:
        known = by_workers.get(point.workers)
        if known is None or _pace(point) > _pace(known):
            by_workers[point.workers] = point
    best = max(by_workers.values(), key=_pace)
    if ceiling is not None and 1 / _pace(best) <= ceiling:
        return None
    busy = best.cpus_busy
    if (cpus is not None and busy is not None and busy >= FULL * cpus) or delayed_share(best) >= CROWDED:
        return "cpu"
    most = max(by_workers.values(), key=lambda point: point.workers)
    fewer = [point for point in by_workers.values() if point.workers <= most.workers / 2]
    if not most.workers or not fewer:
        return None
    if most.workers == 1:  # as good as none, where both wait: that says nothing of two
        return "more"
    if _pace(most) >= GROWS * max(map(_pace, fewer)):
        return "more"
    share = cpu_share(min(points, key=lambda point: point.workers))
    return "storage" if share is not None and share < WAITS else "unknown"


def cpu_share(point: Point) -> float | None:
    """Return the part of a batch's time that is computing, or waiting for a CPU to compute on; None: not measured.

    Above 1 with several threads.
    """
    if point.cpu_s is None or not point.batches or not point.fetch_s or fmean(point.fetch_s) <= 0:
        return None
    return (point.cpu_s + (point.run_delay_s or 0.0)) / point.batches / fmean(point.fetch_s)


def delayed_share(point: Point) -> float:
    """Return the part of a batch's time in which whoever makes it waits for a CPU; 0 if that was not measured."""
    if not point.run_delay_s or not point.batches or not point.fetch_s or fmean(point.fetch_s) <= 0:
        return 0.0
    return min(point.run_delay_s / point.batches / fmean(point.fetch_s), 1.0)


def _pace(point: Point) -> float:
    return point.batches_per_s or 0.0
