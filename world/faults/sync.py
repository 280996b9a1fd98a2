"""Faults of reading from the GPU. The amount is the time in Python after the reads of a step.

That Python is in the job with the fault and without it: without the reads the queue hides it. The host is quick
otherwise, or it would have no time to spare.
"""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import extra, fault
from world.job import Job


def reading(job: Job, amount: float, by: str, reads: int, *, cured: bool) -> Job:
    """Return a job that reads so many values in each step and works after each."""
    each = {"reads_by": by, "reads": reads, "after_read_us": amount / reads, "reads_free": cured}
    return replace(job, **each, metrics_every=0, host_scale=0.35 * job.host_scale)  # type: ignore[arg-type]


@fault("sync.scalar_read", "values are read in each step", extra)
def scalar_read(job: Job, amount: float, *, cured: bool) -> Job:
    """`.item()` once to eight times, spread over the forward pass."""
    return reading(job, amount, "scalar", (1, 2, 4, 8)[job.seed % 4], cured=cured)


@fault("sync.data_dependent", "tensors are indexed with masks in each step", extra)
def data_dependent(job: Job, amount: float, *, cured: bool) -> Job:
    """`nonzero` two to eight times, spread over the forward pass."""
    return reading(job, amount, "mask", (2, 4, 8)[job.seed % 3], cured=cured)


@fault("sync.grad_clip", "the norm of the gradients is read before the optimizer's step", extra)
def grad_clip(job: Job, amount: float, *, cured: bool) -> Job:
    """One read between the backward pass and the optimizer."""
    return reading(job, amount, "clip", 1, cured=cured)


@fault("sync.logging_metrics", "metrics are read and logged in each step", extra)
def logging_metrics(job: Job, amount: float, *, cured: bool) -> Job:
    """Three or six reads in a range that is named for logging."""
    return reading(job, amount, "log", (3, 6)[job.seed % 2], cured=cured)


@fault("sync.framework", "a library synchronizes the device in each step", extra)
def framework(job: Job, amount: float, *, cured: bool) -> Job:
    """`cudaDeviceSynchronize` once or twice at the end of the step, in no operator."""
    return reading(job, amount, "framework", 1 + job.seed % 2, cured=cured)
