"""Faults between ranks, and of a GPU's clock."""

from __future__ import annotations

from dataclasses import replace

from world.faults.base import UP_TO_20, about, data, drained, extra, fault, longer, slower, times
from world.job import Job


def late(job: Job) -> Job:
    """Return a job in which one rank is singled out."""
    return replace(job, slow_rank=job.seed % job.ranks)


def reducing(job: Job, amount: float) -> Job:
    """Return a job with so many times the gradients to reduce, in as many buckets."""
    return replace(job, gradient_scale=amount, bucket_bytes=round(job.bucket_bytes * max(amount, 1.0)))


@fault("dist.straggler", "one rank is slower than the others", slower, neutral=1.0, most=20.0, min_ranks=2)
def straggler(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how many times longer the kernels of its GPU take."""
    return job if cured else replace(late(job), slow_gpu=amount)


@fault("dist.input_straggler", "one rank waits for its data", longer, min_ranks=2)
def input_straggler(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the time between two of its batches."""
    job = data(drained(job, 4), workers=4)
    return job if cured else replace(late(job), slow_data_us=amount)


@fault(
    "dist.length_imbalance",
    "the ranks' shares of the work differ, another way in each step",
    times(1.0),
    most=3.0,
    min_ranks=2,
)
def length_imbalance(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is the spread of the shares; cured, the same work is dealt out evenly."""
    return replace(job, imbalance=amount, balanced=cured)


@fault(
    "dist.bucket_overlap",
    "gradients are reduced after the backward pass",
    about(5.0),
    most=1e4,
    min_ranks=2,
    severities=UP_TO_20,
)
def bucket_overlap(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount scales the gradients."""
    return replace(reducing(job, amount), overlap=cured)


@fault("dist.net_socket", "collectives take a slow path", about(10.0), neutral=1.0, most=1e4, min_ranks=2)
def net_socket(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how many times slower the links are."""
    return job if cured else replace(job, link_slowdown=amount)


@fault("dist.accumulation_sync", "gradients are reduced in every micro-step", about(5.0), most=1e4, min_ranks=2)
def accumulation_sync(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount scales the gradients, of a job that accumulates two micro-steps."""
    return replace(reducing(job, amount), micro_steps=2, reduce_each=not cured)


@fault(
    "hw.thermal",
    "clocks fall during the recording",
    lambda _step, severity: 1 + extra(1.0, severity) / 0.6,
    neutral=1.0,
    most=10.0,
)
def thermal(job: Job, amount: float, *, cured: bool) -> Job:
    """The amount is how many times longer kernels take after two fifths of the recording."""
    return job if cured else replace(job, hot=amount, hot_from=0.4)
