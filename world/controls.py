"""Jobs that look like a fault and have none, and worlds that are not the one that whyidle expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from world.faults.base import ALL, data
from world.job import Every, Job


@dataclass(frozen=True, slots=True)
class Control:
    """A job that looks like a fault and has none."""

    name: str
    title: str
    change: Callable[[Job, float], Job]  # with the healthy job's step time in microseconds
    families: tuple[str, ...] = ALL
    min_ranks: int = 1


def read_that_waits_for_nothing(job: Job, _step: float) -> Job:
    """Each step looks at values of the step before, while the GPU has work."""
    return replace(job, deferred_reads=4)


def wait_behind_the_queue(job: Job, step: float) -> Job:
    """The loader is waited for in each step, while the GPU has a step's work queued."""
    job = replace(job, deferred_reads=0, warmup=6)
    return data(job, workers=1, prefetch=4, batch_us=0.9 * step, variation=0.05)


def copies_beside_kernels(job: Job, step: float) -> Job:
    """Large pinned copies run on a stream of their own."""
    scale = 0.3 * step / 1e6 * job.gpu.pinned_bps / job.net.input_bytes
    return replace(job, copy="stream", copy_scale=scale)


def python_behind_the_queue(job: Job, step: float) -> Job:
    """Python takes a third of each step, and the queue hides it."""
    return replace(job, deferred_reads=1, bookkeeping_us=0.35 * step)


def collection_behind_the_queue(job: Job, step: float) -> Job:
    """Garbage collections take a third of a step, and the queue hides them."""
    return replace(job, deferred_reads=1, gc=Every(5, 0.3 * step))


def reduction_beside_backward(job: Job, _step: float) -> Job:
    """Gradients are reduced while the backward pass runs."""
    return replace(job, gradient_scale=1.5)


def _control(change: Callable[[Job, float], Job], min_ranks: int = 1) -> Control:
    return Control(change.__name__, (change.__doc__ or "").strip(), change, min_ranks=min_ranks)


CONTROLS: Mapping[str, Control] = {
    control.name: control
    for control in (
        _control(read_that_waits_for_nothing),
        _control(wait_behind_the_queue),
        _control(copies_beside_kernels),
        _control(python_behind_the_queue),
        _control(collection_behind_the_queue),
        _control(reduction_beside_backward, min_ranks=2),
    )
}

MISSPECIFIED: Mapping[str, Callable[[Job], Job]] = {
    "queue_512": lambda job: replace(job, queue=512),
    "queue_2048": lambda job: replace(job, queue=2048),
    "missing_events": lambda job: replace(job, missing=0.01),
    "profiler_overhead": lambda job: replace(job, overhead_us=2.0),
    "second_thread": lambda job: replace(job, copy="stream", second_thread=True),
    "loader_out_of_order": lambda job: data(job, in_order=False),
    "collective_contention": lambda job: replace(job, contention=1.1),
}
