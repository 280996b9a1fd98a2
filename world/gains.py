"""What else a job would gain by, besides the cure of its fault: known from running it without.

A job that reads its loss in each step, or is not compiled, may gain by changing that, too. Who names it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from world.faults.base import work
from world.job import Job
from world.simulation import step_us


def twice(job: Job) -> Job:
    """Return the job with twice the batch: its step is worth two."""
    return work(job, batch_scale=2 * job.work.batch_scale)


def can_be_captured(job: Job) -> bool:
    """Return whether a step could be a CUDA graph as it is: nothing is read in it, and no ranks meet."""
    apart = job.reads or job.small_copies or job.search.steps or job.ranks > 1
    return not job.graphed and not apart


# What the jobs of this world have besides the fault that was put in, and how they run without it.
LATENT: Mapping[str, tuple[Callable[[Job], bool], Callable[[Job], Job]]] = {
    "sync.scalar_read": (lambda job: job.metrics_every > 0, lambda job: replace(job, metrics_every=0)),
    "sync.framework": (lambda job: job.deferred_reads > 0, lambda job: replace(job, deferred_reads=0)),
    "transfer.pageable_h2d": (lambda job: job.copy != "stream", lambda job: replace(job, copy="stream")),
    "host.launch_bound": (can_be_captured, lambda job: replace(job, graphed=True)),
    "compile.not_used": (lambda job: not job.work.compiled and not job.graphed, lambda job: work(job, compiled=True)),
    "compute.underfilled": (lambda job: job.work.batch_scale < 1, twice),
}
WORTH_KNOWING = 0.01  # of the step: what is worth less is not listed


def gains(job: Job, step: float, faults: frozenset[str]) -> list[dict[str, Any]]:
    """Return what else a job with these faults would gain by; `step` is its step time in microseconds."""
    known = []
    for name, (applies, cured) in LATENT.items():
        if name in faults or not applies(job):
            continue
        without = step_us(cured(job))
        if cured is twice:
            without /= 2
        if 1 - without / step >= WORTH_KNOWING:
            known.append({"id": name, "severity": 1 - without / step, "step_time_without_s": without / 1e6})
    return known
