"""Trials of loaders whose truth is known: paces by the closed loop itself, or by arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whyidle.model.loader_trial import LoaderTrial, Pass, Point, SeenLoader, Steps, Storage

GIB = 1 << 30


def point(
    workers: int, batch_s: float = 0.1, *, cv: float = 0.0, cpu_share: float = 1.0, cpus: float = 16, **changes: Any
) -> Point:
    """A loader whose batches take a worker `batch_s`; more workers than CPUs get no more of them."""
    slow = max(workers * cpu_share / cpus, 1.0)
    took = batch_s * (1 - cpu_share + cpu_share * slow) if cpu_share < 1 else batch_s * slow
    count = 200
    times = np.full(count, took)
    if cv:
        times = np.random.default_rng(workers).gamma(1 / cv**2, took * cv**2, count)
    seconds = count * float(times.mean()) / max(workers, 1)
    values: dict[str, Any] = {
        "workers": workers,
        "prefetch": 2,
        "status": "ok",
        "batches": count,
        "seconds": seconds,
        "first_batch_s": 0.05 * workers + took,
        "fetch_s": tuple(map(float, times)),
        "cpu_s": count * batch_s * cpu_share,
        "memory_bytes": 300 << 20 if workers else None,
        "peak_memory_bytes": 700 << 20 if workers else None,
        "batch_bytes": 38 << 20,
        "batch_samples": 64,
    }
    return Point(**{**values, **changes})


def failed(workers: int, why: str = "RuntimeError: no database in workers") -> Point:
    return Point(workers, 2, "failed", why)


def loader(workers: int = 0, **changes: Any) -> SeenLoader:
    values: dict[str, Any] = {
        "loader": 0,
        "where": "train.py:41",
        "kind": "torch.utils.data.dataloader.DataLoader",
        "dataset": "data.Photos",
        "batch_size": 64,
        "num_workers": workers,
        "prefetch_factor": 2 if workers else None,
        "pin_memory": False,
        "persistent_workers": False,
        "iterable": False,
        "length": 1000,
    }
    return SeenLoader(**{**values, **changes})


def steps(seconds: float, optimizer_steps: int = 30) -> Steps:
    return Steps(30, seconds, seconds * 0.99, optimizer_steps)


def trial(
    points: Sequence[Point], now: float | None = 0.125, cached: float | None = 0.025, **changes: Any
) -> LoaderTrial:
    values: dict[str, Any] = {
        "state": "done",
        "loader": 0,
        "loaders": (loader(),),
        "points": tuple(points),
        "storage": Storage(warm=Pass(20, 2.0, 90, 0), first=Pass(20, 2.0, 90, 0)),
        "now": None if now is None else steps(now),
        "cached": None if cached is None else steps(cached),
        "cuda": True,
        "available_memory_bytes": 64 * GIB,
        "free_shared_memory_bytes": 32 * GIB,
    }
    return LoaderTrial(**{**values, **changes})
