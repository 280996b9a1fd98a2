"""How many workers a loader takes and what they would save: the closed loop that a DataLoader is, in three limits.

A step is as long as the longest of its own work, its batches shared out over the workers, and the CPU time of both
shared out over the CPUs that other programs leave. That is the mean: workers hand over batches in order, so unequal
ones need some workers more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from whyidle.model.finding import Edit
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Threshold
from whyidle.rules.input import taken

READ = (
    "batch_seconds", "batch_spread", "batch_cpu_share", "loader_batches_per_step", "watched_s", "watched_steps",
    "job_cpu_share", "on_gpu", *taken.READ,
)  # fmt: skip

SPARE = Threshold(1.15, "ratio", source="judgement: 15% more workers than the mean batch needs")
SPREAD = Threshold(0.5, "ratio", source="sd over mean of batch times, assumed: above it prefetch matters more")
FEWEST = Threshold(0.1, "CPUs", source="arithmetic: a machine that is full leaves a job some")
MOST = Threshold(
    16, "workers", source="cores per GPU of common cloud machines are 8 to 24; more needs a look at the CPUs"
)


HANDOVER = Threshold(
    0.002, "s", source="1.3 to 2.4 ms to receive a small batch from a worker, 2 CPUs, PyTorch 2.13 (bench/pairs.py)"
)
SMALL = Threshold(2, "times HANDOVER", source="judgement: a worker has to save clearly more than handing over costs")
CONTENTION = Threshold(
    1.08,
    "of the training thread's own time",
    source="1.08 and 1.19 in the two recordings of kineto's resnet50 sample pair, 0 and 4 workers: the smaller",
)
CROWDED = Threshold(0.5, "of the CPUs", source="judgement: fewer workers have CPUs that the training thread leaves")


def contention(m: Measurements, workers: int) -> tuple[Edit, ...]:
    """Return what workers do to the training thread that has made batches itself until now: they take turns on CPUs."""
    cpus = cpus_per_rank(m)
    if cpus is not None and workers < CROWDED * cpus:
        return ()
    return (Edit("scale_host", {"cause": "host"}, {"factor": CONTENTION, "prior": 1.0}),)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to set, and what of the watched time that saves."""

    workers: int
    saved: float
    cpus_are_the_limit: bool  # with more of them it would take more workers
    at_work: float  # workers that would be making a batch at a time, if all took equally long


def cpus_per_rank(m: Measurements) -> int | None:
    """Return the CPUs that one training process can have with its workers; None if not measured."""
    cpus = taken.per_rank(m)
    return None if cpus is None else max(int(cpus), 1)


def small(m: Measurements) -> bool:
    """Say whether a batch is made about as fast as a worker could hand it over."""
    return "batch_seconds" in m and m.number("batch_seconds") <= SMALL * HANDOVER


def plan(m: Measurements, lost: float, most: int | None = None, handover: float = 0.0) -> Plan | None:
    """Return how many workers to use where `lost` of the watched time goes to waiting; None if not measured.

    Args:
        m: of the watched run; reads `READ`.
        lost: the wait, of watched time.
        most: workers that there is room for; by default one CPU stays with the training thread, unless that would
            wait for workers all the same.
        handover: what the training thread has to do for each batch in place of making it, s.
    """
    if any(name not in m for name in ("batch_seconds", "watched_s", "watched_steps")):
        return None
    steps = m.number("watched_steps")
    step = m.number("watched_s") / steps if steps > 0 else 0.0
    if step <= 0 or m.number("batch_seconds") <= 0:
        return None
    own = step * max(1 - lost, 0.0)
    making = m.number("batch_seconds") * m.get("loader_batches_per_step", 1.0)
    cpus = cpus_per_rank(m)
    room = max(most if most is not None else _room(m, cpus), 1)
    if most is None and cpus is not None and making / room > own:
        room = max(room, cpus)
    at_work = making / own if own > 0 else math.inf
    wanted = SPARE * (1 + m.get("batch_spread", SPREAD)) * at_work
    workers = room if wanted >= room else max(math.ceil(wanted), 1)
    receiving = handover * m.get("loader_batches_per_step", 1.0)
    shared = taken.per_rank(m)
    after = max(own + receiving, making / workers)
    if shared is not None:
        after = max(after, _cpu_time(m, making, own, step) / max(shared, FEWEST))
    return Plan(workers, min(max(1 - after / step, 0.0), lost), wanted > room, at_work)


def _room(m: Measurements, cpus: int | None) -> int:
    """Return how many workers the CPUs leave room for; one that mostly waits for storage takes little of a CPU."""
    if cpus is None:
        return int(MOST)
    each = min(max(m.get("batch_cpu_share", 1.0), 0.1), 1.0)
    return max(cpus - 1, min(int(cpus / each) - 1, int(MOST)))


def _cpu_time(m: Measurements, making: float, own: float, step: float) -> float:
    """Return the seconds of one CPU that a step takes; the rest of the step counts where it runs on the CPU."""
    on_gpu = "on_gpu" not in m or bool(m.one("on_gpu").value)
    if not on_gpu and "job_cpu_share" in m and "cpus_allowed" in m:
        used = m.number("job_cpu_share") * m.number("cpus_allowed")
        return step * used / max(m.get("ranks_on_machine", 1.0), 1.0)
    return making * min(m.get("batch_cpu_share", 1.0), 1.0) + (0.0 if on_gpu else own)
