"""What DCGM's activity counters tell of a GPU that counts as utilized: whether its parts work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.measure.curve.busy import stuck
from whyidle.measure.curve.samples import at
from whyidle.measure.curve.shape import Shape

UTILIZED: Final = 90.0  # percent (method 3.2: flat-high)
SM: Final = 0.5  # NVIDIA: SM activity below it is likely ineffective
TENSOR: Final = 0.1  # method 3.2
COUNTERS: Final = ("sm_active_share", "tensor_active_share", "dram_active_share")


@dataclass(frozen=True, slots=True)
class Activity:
    """Mean activity while utilization is high; None where it was not recorded."""

    hollow_s: float  # utilized, and multiprocessors or tensor cores hardly work
    utilized_s: float
    shares: dict[str, float]  # by counter, those that were recorded


def activity(one: Shape) -> Activity | None:
    """Return how much the parts of a GPU work while it counts as utilized; None where nobody recorded that."""
    told = [name for name in ("sm_active_share", "tensor_active_share") if _known(one, name)]
    high = one.samples.value >= UTILIZED
    if not told or not high.any() or (one.source == "utilization_percent" and stuck(one.gpu, one.samples)):
        return None
    time, seconds = one.samples.time[high], one.samples.seconds[high].astype(np.float64)
    within = 3 * one.samples.interval_s
    shares: dict[str, float] = {}
    for name in COUNTERS:
        if _known(one, name):
            value = at(one.gpu.counters[name], time, within)
            there = np.isfinite(value)
            if seconds[there].sum() > 0:
                shares[name] = float(np.clip(np.average(value[there], weights=seconds[there]), 0, 1))
    if not any(name in shares for name in told):
        return None
    hollow = shares.get("sm_active_share", 1.0) < SM or shares.get("tensor_active_share", 1.0) < TENSOR
    return Activity(float(seconds.sum()) if hollow else 0.0, float(seconds.sum()), shares)


def _known(one: Shape, name: str) -> bool:
    series = one.gpu.counters.get(name)
    return series is not None and bool(np.isfinite(series.value).any())
