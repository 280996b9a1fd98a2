"""Faults that make training stand."""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import extra, fault
from world.job import Every, Job


@fault("pause.checkpoint_sync", "training stands while a checkpoint is written", extra)
def checkpoint_sync(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the cost per step of a checkpoint every five."""
    return job if cured else replace(job, checkpoint=Every(5, amount * 5))


@fault("pause.evaluation", "training stands while the model is evaluated", extra)
def evaluation(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the cost per step of an evaluation of four batches every five."""
    return job if cured else replace(job, evaluation=Every(5, amount * 5, 4))


@fault("pause.startup", "the first step loads code", lambda step, severity: extra(step, severity) * 10)
def startup(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how long; the recording begins with the job."""
    return replace(job, warmup=0, startup_us=0.0 if cured else amount)
