"""What a look at a running job says: the same causes as of a job that was watched from its start, told by less.

Nothing is known of batches and steps. But where the training starves, its workers have a batch to make at any time: so
the shares of their time stand for those of a batch, and the same comparison decides (`late_workers.answer`). A cause
that only the kernel's counters show is no surer than `GUESSED`; a stack that was met waiting shows it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from whyidle.model.finding import Finding, Fix, Location
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import live_words, waits
from whyidle.rules.base import Rule, Threshold
from whyidle.rules.input import late_workers

NEEDS = ("live_s", "live_main_waits_share", "live_workers")
READ = (
    "live_main_read_share", "live_loader_wait_share", "live_loader_fetch_share",
    "live_main_site", "live_workers_cpu_share", "live_workers_run_delay_share", "live_workers_blocked_share",
    "live_workers_site", "live_file_system", "live_file", "live_runnable_threads", "live_pool_threads",
    "on_gpu", "utilization_mean_share", "main_cpu_share", "main_run_delay_share", "cpu_throttled_share", "cpu_quota",
    "cpus_online", "cpus_allowed", "cpus_taken", "job_cpu_share", "worker_cpus_allowed",
    "storage_read_bytes_per_s", "ranks_on_machine", "cpu_pressure_share",
)  # fmt: skip

# What a batch has under the same name.
SAME = (
    "cpu_throttled_share", "cpu_quota", "cpus_online", "cpus_allowed", "cpus_taken", "job_cpu_share",
    "worker_cpus_allowed", "ranks_on_machine", "on_gpu", "utilization_mean_share", "cpu_pressure_share",
)  # fmt: skip

SIBLINGS = (late_workers.TOO_FEW, late_workers.TRANSFORM)
ZERO, PYTHON = "input.workers_zero", "host.python_overhead"
AT_WORK = Threshold(0.5, "of their time", source="judgement: workers that mostly wait for orders do not hold it up")
WAITS = Threshold(0.05, "of look", source="judgement: medium severity; the counters' resolution is 10 ms")
READS = Threshold(0.2, "of look", source="judgement: a checkpoint or a first import reads for some percent")
COMPUTES = Threshold(0.7, "of look", source="judgement: the larger part, next to a GPU that rests")
RESTS = Threshold(0.2, "of look", source="judgement: utilization is too coarse for less")
FETCHES = Threshold(0.1, "of stacks", source="judgement: 15 of 150 samples; less is chance")
POOL = Threshold(2, "threads per CPU", source="the same as late_workers.CROWDED")
GUESSED = Threshold(0.6, "probability", source="judgement: counters from outside, and no step or batch seen")
COUNTED = Threshold(0.7, "probability", source="judgement: the kernel counts how long it held the job back")
MET = Threshold(0.75, "probability", source="judgement: stacks were met in the wait, and counters agree")
UNSEEN = Threshold(0.5, "probability", source="judgement: whether the GPU waits, too, was not seen")


@dataclass(frozen=True, slots=True)
class Answer:
    """The one cause that a look tells."""

    rule: str
    lost: float  # of look, at most
    sure: float
    message: str
    seen: str
    locations: tuple[Location, ...] = ()
    candidates: tuple[str, ...] = ()


def watched(m: Measurements) -> bool:
    """Say whether the evidence is a look at a running job."""
    return all(name in m for name in NEEDS)


def finding(rule: Rule, m: Measurements, fixes: Callable[[Measurements], tuple[Fix, ...]]) -> Iterator[Finding]:
    """Yield the finding if it is this rule's turn.

    Args:
        rule: that is asked.
        m: what a look measured.
        fixes: what helps, by measurements as they are called of a job that was watched from its start.
    """
    told = answer(m)
    if told is None or told.rule != rule.id:
        return
    yield from rule.finding(
        told.message,
        lost_share=told.lost,
        confidence=told.sure,
        seen=told.seen,
        locations=told.locations,
        fixes=fixes(as_batches(m, told.lost)),
        candidates=told.candidates,
    )


def answer(m: Measurements) -> Answer | None:
    """Return the cause that speaks, the most particular first; None where nothing holds the job up, or none is seen."""
    room = _room(m)
    waiting = min(m.number("live_main_waits_share"), room)
    if (told := _held_back(m, room)) is not None:
        return told
    if m.number("live_workers") and _starved(m) and waiting >= WAITS:
        return _by_workers(m, waiting)
    fetching, delayed = m.get("live_loader_fetch_share", 0.0), m.get("main_run_delay_share", 0.0)
    if delayed >= late_workers.DELAYED and delayed > fetching and not _crowded(m):
        return _delayed(m, room)
    if fetching >= FETCHES:
        return _fetches(m, room)
    if m.get("live_main_read_share", 0.0) >= READS:
        return _reads(m, room)
    if _crowded(m):
        return _crowd(m, room)
    if _computes(m, room):
        return _python(m, room)
    return None


def as_batches(m: Measurements, lost: float) -> Measurements:
    """Return what was measured under the names that it has where batches are seen: of workers that never rest."""
    parts = ("cpu", "run_delay", "blocked")
    shares = {part: m.number(f"live_workers_{part}_share") for part in parts if f"live_workers_{part}_share" in m}
    whole = max(sum(shares.values()), 1e-9)
    found = {f"batch_{part}_share": min(share / whole, 1.0) for part, share in shares.items()}
    found |= {late_workers.WAIT: lost, "num_workers": m.number("live_workers")}
    if _crowded(m):
        found["compute_threads"] = m.number("live_runnable_threads")
    return Measurements(
        [*(Measurement(name, value) for name, value in found.items()), *(m.one(name) for name in SAME if name in m)]
    )


def _room(m: Measurements) -> float:
    """Return the share of the look that can be lost at most: all but what the GPU works, where that is seen."""
    return max(1 - m.get("utilization_mean_share", 0.0), 0.0) if waits.on_gpu(m) else 1.0


def _sure(m: Measurements, sure: float) -> float:
    return min(sure, UNSEEN) if waits.on_gpu(m) and "utilization_mean_share" not in m else sure


def _starved(m: Measurements) -> bool:
    """Say whether the training waits for its workers: stacks show it, or else workers that are at work."""
    if "live_loader_wait_share" in m:
        return m.number("live_loader_wait_share") >= FETCHES
    parts = (m.get(f"live_workers_{part}_share", 0.0) for part in ("cpu", "run_delay", "blocked"))
    return sum(parts) >= AT_WORK


def _crowded(m: Measurements) -> bool:
    if "live_runnable_threads" not in m or "cpus_allowed" not in m:
        return False
    least = POOL * m.number("cpus_allowed")
    return m.number("live_runnable_threads") >= least and m.get("live_pool_threads", 0.0) >= POOL


def _held_back(m: Measurements, room: float) -> Answer | None:
    """Return that the quota of the control group stops the job, where it does."""
    if not late_workers.throttled(m):
        return None
    held, quota = m.number("cpu_throttled_share"), m.number("cpu_quota")
    return Answer(
        late_workers.QUOTA,
        min(held, room),
        _sure(m, COUNTED),
        f"The quota of {quota:g} CPUs holds the job back {held:.0%} of the time.",
        f"the kernel stopped the control group {held:.0%} of the {m.number('live_s'):.0f} s, as it may use {quota:g} "
        f"of {m.number('cpus_online'):.0f} CPUs; the main thread computes {m.get('main_cpu_share', 0.0):.0%}"
        f"{live_words.and_workers(m)}",
    )


def _by_workers(m: Measurements, waiting: float) -> Answer:
    """Return why the training waits for its workers."""
    met = "live_loader_wait_share" in m
    waiting = min(waiting, m.get("live_loader_wait_share", 1.0))
    batches = as_batches(m, waiting)
    rule = late_workers.answer(batches).rule
    # Threads that want a CPU were counted; how long a batch takes was not, nor how many workers it needs.
    others = [other for other in late_workers.undecided(batches, rule) if other != late_workers.THREADS]
    decided = met and not others
    if rule in SIBLINGS:
        others += [other for other in SIBLINGS if other not in {rule, *others}]
    site = live_words.site(m, "live_workers_site")
    told, asleep = live_words.workers(m), m.number("live_main_waits_share")
    seen = (
        f"in {m.number('live_s'):.0f} s {told}; the job uses {m.get('job_cpu_share', 0.0):.0%} of the "
        f"CPUs that it may use{live_words.others(m)}{live_words.met(m)}"
    )
    return Answer(
        rule,
        waiting,
        _sure(m, MET if decided else GUESSED),
        f"The training waits for its DataLoader's workers: {told}, the main thread sleeps {asleep:.0%}.",
        seen
        + (live_words.storage(m) if rule == late_workers.STORAGE else "")
        + (f"; workers are mostly at {site}" if site else ""),
        m.one("live_workers_site").locations if site else (),
        tuple(others),
    )


def _fetches(m: Measurements, room: float) -> Answer:
    share = m.number("live_loader_fetch_share")
    site = live_words.site(m, "live_main_site")
    return Answer(
        ZERO,
        min(share, room),
        _sure(m, MET),
        f"The training process makes its batches itself (num_workers=0): {share:.0%} of the time.",
        f"the stack of its main thread is in the DataLoader's fetch in {share:.0%} of the samples"
        + (f", mostly at {site}" if site else "")
        + (live_words.storage(m) if m.get("live_main_read_share", 0.0) >= READS else ""),
        m.one("live_main_site").locations if site else (),
        (late_workers.STORAGE,) if m.get("live_main_read_share", 0.0) >= READS else (),
    )


def _reads(m: Measurements, room: float) -> Answer:
    share, site = m.number("live_main_read_share"), live_words.site(m, "live_main_site")
    return Answer(
        late_workers.STORAGE,
        min(share, room),
        _sure(m, GUESSED),
        f"The training process itself waits for reads of files or the network {share:.0%} of the time.",
        f"its main thread is blocked in a read in {share:.0%} of the samples{live_words.storage(m)}"
        + (f"; mostly at {site}" if site else ""),
        m.one("live_main_site").locations if site else (),
        (ZERO, "pause.checkpoint_sync"),
    )


def _crowd(m: Measurements, room: float) -> Answer:
    threads, cpus = m.number("live_runnable_threads"), m.number("cpus_allowed")
    return Answer(
        late_workers.THREADS,
        min(1 - cpus / threads, room),
        _sure(m, GUESSED),
        f"{threads:.0f} threads of the job want to compute on {cpus:.0f} CPUs, and wait for each other.",
        f"in the mean {threads:.1f} threads run or wait for a CPU, {m.get('live_pool_threads', 0.0):.1f} of them in "
        f"one process; the main thread waits for a CPU {m.get('main_run_delay_share', 0.0):.0%} of the time",
    )


def _delayed(m: Measurements, room: float) -> Answer:
    share, taken = m.number("main_run_delay_share"), live_words.others(m)
    used = m.get("job_cpu_share", 0.0)
    return Answer(
        late_workers.THREADS,
        min(share, room),
        _sure(m, COUNTED if taken else GUESSED),
        f"The training thread is ready to compute and gets no CPU {share:.0%} of the time.",
        f"in {m.number('live_s'):.0f} s it waits for a CPU {share:.0%} of the time and computes "
        f"{m.get('main_cpu_share', 0.0):.0%}; the job uses {used:.0%} of the CPUs that it may use" + taken,
        candidates=() if "cpu_throttled_share" in m or taken else (late_workers.QUOTA,),
    )


def _computes(m: Measurements, room: float) -> bool:
    """Say whether the training process computes on the CPU while its GPU rests."""
    gpu = waits.on_gpu(m) and "utilization_mean_share" in m
    return gpu and room >= RESTS and m.get("main_cpu_share", 0.0) >= COMPUTES


def _python(m: Measurements, room: float) -> Answer:
    computing, site = m.number("main_cpu_share"), live_words.site(m, "live_main_site")
    return Answer(
        PYTHON,
        min(computing, room),
        GUESSED if site else UNSEEN,
        f"The GPU rests {room:.0%} of the time while the training thread computes on a CPU {computing:.0%} of it.",
        f"NVML sees kernels {m.number('utilization_mean_share'):.0%} of the time"
        + (f"; the main thread is mostly at {site}" if site else "; py-spy would show at which line the thread is"),
        m.one("live_main_site").locations if site else (),
        ("host.launch_bound", "input.no_overlap", ZERO, "sync.logging_metrics"),
    )
