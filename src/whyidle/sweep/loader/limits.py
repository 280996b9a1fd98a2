"""What keeps a loader from being faster with more workers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from whyidle.model.loader_trial import Limit, Point

GROWS: Final = 1.10  # more workers give so much more, or they do not help (judgement)
FULL: Final = 0.85  # of the CPUs (method: above 90% there is nothing left; a measure of seconds varies by 5%)
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
    if cpus is not None and busy is not None and busy >= FULL * cpus:
        return "cpu"
    most = max(by_workers.values(), key=lambda point: point.workers)
    fewer = [point for point in by_workers.values() if point.workers <= most.workers / 2]
    if not most.workers or not fewer:
        return None
    if _pace(most) >= GROWS * max(map(_pace, fewer)):
        return "more"
    share = cpu_share(min(points, key=lambda point: point.workers))
    return "storage" if share is not None and share < WAITS else "unknown"


def cpu_share(point: Point) -> float | None:
    """Return the part of a batch's time that is computing; above 1 with several threads, None where not measured."""
    if point.cpu_s is None or not point.batches or not point.fetch_s or fmean(point.fetch_s) <= 0:
        return None
    return point.cpu_s / point.batches / fmean(point.fetch_s)


def _pace(point: Point) -> float:
    return point.batches_per_s or 0.0
