"""Which counter tells how busy a GPU is, and what it says.

NVML's utilization first; DCGM's GR_ENGINE_ACTIVE stands in where there is none, as on a GPU that is split (MIG). That
counter is known to stay at 0 on some hosts while the GPU works: then utilization shows it, and it is told.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.measure.curve.gpus import Gpu
from whyidle.measure.curve.samples import Samples, samples

STUCK: Final = 1.0  # percent: GR_ENGINE_ACTIVE never above it, while
WORKS: Final = 10.0  # percent of mean utilization say otherwise (judgement)
# What else says that a GPU works, and what makes percent of it.
OTHERS: Final = {
    "sm_active_share": 100.0,
    "tensor_active_share": 100.0,
    "dram_active_share": 100.0,
    "memory_utilization_percent": 1.0,
}


def busy(gpu: Gpu, like: Samples | None = None) -> tuple[Samples, str] | None:
    """Return a GPU's utilization in percent, and the counter that tells it; None where nothing does.

    `like`: those of another GPU, see `samples`.
    """
    for name, scale in (("utilization_percent", 1.0), ("graphics_active_share", 100.0)):
        one = gpu.counters.get(name)
        if one is not None and np.isfinite(one.value).any():
            if name != "utilization_percent" and silent(gpu):
                return None
            return samples(one, scale=scale, low=0.0, high=100.0, like=like), name
    return None


def silent(gpu: Gpu) -> bool:
    """Say whether GR_ENGINE_ACTIVE stays at 0 while another counter says that the GPU works: then nothing tells."""
    engine = _most(gpu, "graphics_active_share")
    if engine is None or engine * 100 > STUCK:
        return False
    return any((_most(gpu, name) or 0.0) * scale >= WORKS for name, scale in OTHERS.items())


def _most(gpu: Gpu, name: str) -> float | None:
    """Return the highest value of a counter; None where none was measured."""
    one = gpu.counters.get(name)
    return None if one is None or not np.isfinite(one.value).any() else float(np.nanmax(one.value))


def stuck(gpu: Gpu, utilization: Samples) -> bool:
    """Say whether GR_ENGINE_ACTIVE stays at 0 while utilization says that the GPU works."""
    one = gpu.counters.get("graphics_active_share")
    if one is None or not np.isfinite(one.value).any():
        return False
    return float(np.nanmax(one.value)) * 100 <= STUCK and utilization.mean >= WORKS
