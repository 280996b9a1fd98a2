"""Faults of copies to the GPU."""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import about, extra, fault
from world.job import Job


@fault(
    "transfer.pageable_h2d",
    "batches are copied from pageable memory",
    about(1.0),
    families=("cnn", "resnet", "dlrm", "diffusion"),
    most=1e7,
)
def pageable_h2d(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount scales the bytes of a batch; cured, pinned memory is copied on a stream of its own."""
    return replace(job, copy="stream" if cured else "pageable", copy_scale=amount)


@fault("transfer.h2d_in_step", "small tensors are made on the CPU in each step", extra)
def h2d_in_step(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the host's time to make them."""
    count = 8 + job.seed % 9
    return job if cured else replace(job, small_copies=count, small_copy_us=amount / count)
