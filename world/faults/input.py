"""Faults of the way in which batches are made."""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import data, drained, extra, fault, longer, paced
from world.job import Job


@fault("input.workers_zero", "batches are made in the training process", extra)
def workers_zero(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time to make a batch."""
    return paced(data(job, workers=16 if cured else 0, batch_us=amount))


@fault("input.workers_too_few", "workers are too few, cores are free", longer)
def workers_too_few(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time between two batches."""
    few = 1 + job.seed % 3
    return data(drained(job, few), workers=6 * few if cured else few, cores=24, batch_us=amount * few)


@fault("input.cpu_transform", "all cores are busy with transforms", longer)
def cpu_transform(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is about the time between two batches; cured, a batch takes a fifth of the work."""
    return data(drained(job, 8), workers=8, cores=6, batch_us=amount if cured else amount * 5.5)


@fault("input.storage", "workers wait for slow reads", longer)
def storage(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time between two batches: of all, or (every third seed) until the page cache is warm."""
    slow = data(drained(job, 4), workers=4, batch_us=1000.0, variation=0.4, read_us=amount / 2 if cured else amount * 4)
    return data(slow, read_us=slow.data.read_us / 4, cold=24) if job.seed % 3 == 2 else slow


@fault("input.worker_startup", "workers are started again for each epoch", lambda step, s: extra(step, s) * 10)
def worker_startup(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time until new workers are ready; the recording begins with an epoch."""
    return data(replace(job, warmup=4), epoch=4, persistent=cured, start_us=amount)


@fault("input.no_overlap", "the training thread makes the batch between two steps", extra)
def no_overlap(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time to make a batch, in a range of the program's own and in no loader."""
    return paced(data(job, workers=16, batch_us=amount) if cured else data(job, inline_us=amount))
