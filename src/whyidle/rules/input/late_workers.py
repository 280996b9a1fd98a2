"""Whose the wait for a DataLoader's workers is: seven causes look alike from the training process, and one answers.

The training thread only sees that no batch is there. What the workers did meanwhile decides, the most particular first:
an epoch of few batches, a quota, a narrow affinity, too many threads. Such a cause answers only if it explains at least
half of the wait. What is left is storage where workers are blocked, the transforms where the CPUs are busy, and too few
workers where CPUs are free, or where nothing is known of the workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from whyidle.model.measurement import Measurements
from whyidle.rules.base import Threshold
from whyidle.rules.input import late_rank, loader_model, taken

WAIT = "lost_data_workers_share"
READ = tuple(
    dict.fromkeys(
        (
            WAIT, "lost_data_first_share", "epochs", "batches_per_epoch", "num_workers",
            "batch_cpu_share", "batch_run_delay_share", "batch_blocked_share", "look_read_share", "look_lock_share",
            "cpu_throttled_share", "cpu_quota", "cpus_online", "cpus_allowed", "job_cpu_share",
            "worker_cpus_allowed", "affinity_narrowed", "compute_threads", "cpu_pressure_share",
            *late_rank.READ, *loader_model.READ,
        )
    )
)  # fmt: skip

GRANULARITY, QUOTA, AFFINITY = "input.batch_granularity", "host.cpu_quota", "host.cpu_affinity"
THREADS, STORAGE, TRANSFORM, TOO_FEW = (
    "host.cpu_oversubscription", "input.storage", "input.cpu_transform", "input.workers_too_few",
)  # fmt: skip
# What has to be measured before a cause can be told from the others, and its rule be asked.
EVIDENCE = {
    TRANSFORM: ("batch_cpu_share", "job_cpu_share"),
    STORAGE: ("batch_blocked_share",),
    QUOTA: ("cpu_throttled_share", "cpu_quota", "cpus_online"),
    AFFINITY: ("worker_cpus_allowed", "num_workers"),
    THREADS: ("compute_threads", "cpus_allowed"),
}

EXPLAINS = Threshold(0.5, "of the wait", source="judgement: a cause that explains less is not what to change first")
HANDFUL = Threshold(4, "batches", source="judgement; an epoch of 4 batches in one public case")
AGAIN = Threshold(2, "epochs", source="of one epoch nobody knows whether its beginning comes again")
THROTTLED = Threshold(0.1, "of watched", source="judgement: a burst now and then is throttled in every container")
DELAYED = Threshold(
    0.2, "of batch_seconds", source="judgement: a worker with a CPU of its own waits for it a few percent of the time"
)
PINNED = Threshold(2, "CPUs", source="a batch system gives a task one core, which is two CPUs, unless asked for more")
CROWDED = Threshold(
    2, "threads per CPU and worker", source="by default one rank has a thread per CPU, and one for each worker"
)
IN_USE = Threshold(
    0.5,
    "of cpus_allowed",
    source="0.65 in a job of 24 threads in 2 CPUs (bench/pairs.py): threads that wait for each other spin, then sleep",
)
PRESSED = Threshold(0.5, "of watched", source="judgement: half of the time some task was ready and had no CPU")
SHARED = Threshold(2, "workers per CPU", source="judgement: then each worker has half a CPU at most")
BLOCKED = Threshold(0.5, "of batch_seconds", source="judgement: the larger part of the time")
BUSY = Threshold(0.85, "of cpus_allowed", source="judgement: what is left is what no worker can use all the time")


@dataclass(frozen=True, slots=True)
class Answer:
    """The one cause of the wait that speaks, and what its cure may save."""

    rule: str
    share: float  # of watched


def answer(m: Measurements) -> Answer:
    """Return which rule speaks for the wait for workers; its share is never more than that wait."""
    if few_batches(m):
        return Answer(GRANULARITY, late_rank.own(m, "lost_data_first_share") + late_rank.own(m, WAIT))
    wait = late_rank.own(m, WAIT)
    for cause in _held_back(m):
        if cause.share >= EXPLAINS * wait:
            return Answer(cause.rule, min(cause.share, wait))
    return _limit(m, wait)


def claimed(m: Measurements, rule: str) -> float:
    """Return the share of watched time that a rule speaks for; 0 where it is another's turn."""
    spoken = answer(m)
    return spoken.share if spoken.rule == rule else 0.0


def undecided(m: Measurements, rule: str) -> tuple[str, ...]:
    """Return the other rules that were not ruled out, since what tells them apart was not measured."""
    return tuple(other for other in EVIDENCE if other != rule and not _told(m, other))


def few_batches(m: Measurements) -> bool:
    """Say whether an epoch is so short that its workers are hardly started before it ends."""
    workers, first = m.get("num_workers", 0.0), m.get("lost_data_first_share", 0.0)
    if "batches_per_epoch" not in m or workers < 1 or m.get("epochs", 0.0) < AGAIN:
        return False
    short = 0 < m.number("batches_per_epoch") <= max(workers, HANDFUL)
    return short and first > 0 and first >= EXPLAINS * (first + m.get(WAIT, 0.0))


def throttled(m: Measurements) -> bool:
    """Say whether the quota of the control group holds the job back."""
    if not all(name in m for name in EVIDENCE[QUOTA]):
        return False
    return m.number("cpu_quota") < m.number("cpus_online") and m.number("cpu_throttled_share") >= THROTTLED


def crowded(m: Measurements) -> bool:
    """Say whether the job has far more compute threads than CPUs, and keeps these busy."""
    if not _told(m, THREADS):
        return False
    usual = m.number("cpus_allowed") + m.get("num_workers", 0.0)
    return m.number("compute_threads") >= CROWDED * usual > 0 and m.get("job_cpu_share", 1.0) >= IN_USE


def wider(m: Measurements) -> float:
    """Return the CPUs that workers could have if their affinity were not narrowed; 0 if it is not."""
    has = m.get("worker_cpus_allowed", 0.0)
    if m.get("num_workers", 0.0) <= has or has < 1:
        return 0.0
    if m.get("cpus_allowed", 0.0) > has:
        return m.number("cpus_allowed")
    machine = min(m.get("cpus_online", 0.0), m.get("cpu_quota", float("inf")))
    narrowed = "affinity_narrowed" in m and bool(m.one("affinity_narrowed").value)
    return machine if machine > has and (narrowed or has <= PINNED) else 0.0


def _told(m: Measurements, rule: str) -> bool:
    if rule == QUOTA and "cpu_quota" in m and m.number("cpu_quota") >= m.get("cpus_online", math.inf):
        return True  # there is none, and then no counter of it
    return all(name in m for name in EVIDENCE[rule])


def _held_back(m: Measurements) -> Iterator[Answer]:
    """Yield what keeps workers from the CPUs that are there, with the bound of what it can cost."""
    delay = m.get("batch_run_delay_share", 0.0)
    if throttled(m):
        yield Answer(QUOTA, max(m.number("cpu_throttled_share"), delay))
    if _told(m, AFFINITY) and wider(m) > 0:
        has, workers = m.number("worker_cpus_allowed"), m.number("num_workers")
        starved = delay >= DELAYED if "batch_run_delay_share" in m else workers >= SHARED * has
        if starved:  # workers that compute get as much faster as they get more CPUs
            yield Answer(AFFINITY, 1 - has / min(workers, wider(m)))
    # the CPU time of a worker's whole pool hides what one of its threads waits; the machine's pressure does not
    pressed = m.get("cpu_pressure_share", 0.0)
    if crowded(m) and (delay >= DELAYED or pressed >= PRESSED):
        yield Answer(THREADS, max(delay, pressed))


def _limit(m: Measurements, wait: float) -> Answer:
    """Return what limits workers that nothing holds back: storage, the CPUs, or how many of them there are."""
    cpu, delay, blocked = (m.get(f"batch_{part}_share", 0.0) for part in ("cpu", "run_delay", "blocked"))
    locks = m.get("look_lock_share", 0.0) > m.get("look_read_share", 0.0)
    if blocked >= BLOCKED and not locks:
        return Answer(STORAGE, min(blocked, wait))
    computing = Answer(TRANSFORM, min(max(cpu + delay, 1 - blocked), wait))
    told = _told(m, TRANSFORM) and cpu + delay >= blocked
    if told and (m.number("job_cpu_share") >= BUSY or delay >= DELAYED):
        return computing
    more = more_workers(m, wait)
    saved = wait if more is None else more.saved
    if told and saved < EXPLAINS * wait:  # there is no room for as many as it takes
        return computing
    return Answer(TOO_FEW, saved if told else wait)


def more_workers(m: Measurements, wait: float) -> loader_model.Plan | None:
    """Return how many workers there is room for and need of; None if not measured."""
    cpus = loader_model.cpus_per_rank(m)
    now = int(m.get("num_workers", 0.0))
    if cpus is None or "job_cpu_share" not in m:
        return loader_model.plan(m, wait)
    each = min(max(m.get("batch_cpu_share", 1.0), 0.1), 1.0)  # a worker that mostly waits takes little of a CPU
    used = m.number("job_cpu_share") * m.number("cpus_allowed") / max(m.get("ranks_on_machine", 1.0), 1.0)
    free = math.ceil(max((taken.per_rank(m) or 0.0) - used, 0.0) / each)
    return loader_model.plan(m, wait, most=max(cpus - 1, min(now + free, int(cpus / each)), 1))
