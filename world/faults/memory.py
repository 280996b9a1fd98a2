"""Faults of memory."""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import extra, fault, paced
from world.job import Every, Job


@fault("memory.allocator_thrash", "memory goes back to the driver and is asked for again", extra)
def allocator_thrash(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the cost per step of six cudaFree and six cudaMalloc every other step."""
    return replace(paced(job), churn=Every() if cured else Every(2, amount * 2, 6))
