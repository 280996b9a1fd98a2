"""A fault: one function that makes a job with it and the same job without it.

`change(job, amount, cured)` puts the fault into a job, or with `cured` all that surrounds it and not the fault itself.
What belongs to the job and not to the fault (Python that runs after a value is read, and that the queue would hide) is
in both. `amount` says how bad it is; calibrate.py finds the amount at which the cure is worth the wanted share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from world.job import Job
from world.machine import GPUS

ALL = ("cnn", "resnet", "bert", "gpt", "dlrm", "diffusion")
CONVOLUTIONAL = ("cnn", "resnet", "diffusion")
SEVERITIES = (0.02, 0.05, 0.1, 0.2, 0.4)
UP_TO_20 = SEVERITIES[:4]
Guess = Callable[[float, float], float]


class Change(Protocol):
    """Makes a job with a fault, or without it."""

    def __call__(self, job: Job, amount: float, *, cured: bool) -> Job: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, by the id of its cause."""

    id: str
    title: str
    change: Change
    guess: Guess  # (step time in us, severity) -> an amount to start from
    neutral: float = 0.0  # the amount that is no fault
    most: float = float("inf")  # the largest amount that makes sense
    families: tuple[str, ...] = ALL
    severities: tuple[float, ...] = SEVERITIES  # that most of these families can reach
    min_ranks: int = 1


FAULTS: dict[str, Fault] = {}


def fault(id_: str, title: str, guess: Guess, **more: Any) -> Callable[[Change], Change]:
    """Register a function as the fault with this id."""

    def register(change: Change) -> Change:
        FAULTS[id_] = Fault(id_, title, change, guess, **more)
        return change

    return register


# guesses


def extra(step: float, severity: float) -> float:
    """Return the time that has to be added to a step to make its cure worth the severity."""
    return step * severity / (1 - severity)


def longer(step: float, severity: float) -> float:
    """Return how long the step is then."""
    return step / (1 - severity)


def slower(_step: float, severity: float) -> float:
    """Return the factor by which the step is then longer."""
    return 1 / (1 - severity)


def times(factor: float) -> Guess:
    """Return a guess that is so many times the severity."""
    return lambda _step, severity: factor * severity


def about(amount: float) -> Guess:
    """Return a guess that is always the same."""
    return lambda _step, _severity: amount


# jobs around a fault, the same with it and without


def data(job: Job, **fields: Any) -> Job:
    """Return the job with another way to make batches."""
    return replace(job, data=replace(job.data, **fields))


def work(job: Job, **fields: Any) -> Job:
    """Return the job with other work for the GPU."""
    return replace(job, work=replace(job.work, **fields))


def small(job: Job, scale: float) -> Job:
    """Return the job with a small batch: the host's pace begins to matter."""
    return work(job, batch_scale=job.work.batch_scale * scale)


def paced(job: Job) -> Job:
    """Return a job whose host cannot run far ahead: it reads each step's loss, or waits for that of the step before."""
    return replace(job, metrics_every=(job.seed + 1) % 2, deferred_reads=job.seed % 2)


def drained(job: Job, workers: int) -> Job:
    """Return the job with enough steps before the recording to use up what so many workers have made ahead."""
    return replace(job, warmup=2 * workers * job.data.prefetch + 2)


# of the batch: where host and A100 take about as long for a step
EVEN = {"cnn": 0.06, "resnet": 0.27, "bert": 0.1, "gpt": 0.06, "dlrm": 0.09, "diffusion": 0.14}


def host_bound(job: Job) -> Job:
    """Return a job in which a slower host soon makes a longer step, and that waits for nothing."""
    scale = EVEN[job.family] * job.gpu.tensor_flops / GPUS["A100"].tensor_flops
    return replace(small(job, scale), metrics_every=0, deferred_reads=0)
