"""The last minutes of a GPU in a few words: busy, waiting, idle and held by whom, throttled, lagging, or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from whyidle.model.finding import LOW, UTILIZED
from whyidle.render.words import clean, percent, shorten, size
from whyidle.watch.jobs import Job
from whyidle.watch.reading import HELD_BYTES, Gpu, Reading
from whyidle.watch.window import Seen

Kind: TypeAlias = Literal["busy", "waits", "idle", "held", "free", "throttled", "lagging", "unknown"]
FINE: tuple[Kind, ...] = ("busy", "waits")

KNOWN = 0.5  # of the samples at least, or the rest may have been anything
# Limits of `hw.thermal` and `hw.power_cap`: of busy samples; of the highest clock, below which a power limit is low.
THROTTLED = 0.1
LOW_CLOCK = 0.5
# A GPU lags that is so many points from the median of its job's, and three times their usual distance from it
# (docs/method.md, Curves).
LAG = 0.05
LAG_SPREADS = 3 * 1.4826
PEERS = 3  # GPUs of a job, from which on one can be told from the others
SAID = 2  # jobs that are named


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a GPU.

    Attributes:
        text: for a person, without the name of the GPU.
        cause: of its idle time, as `whyidle_idle_cause_share` names it.
    """

    kind: Kind
    text: str
    cause: str = ""


def verdict(
    gpu: Gpu,
    seen: Seen,
    last: Reading | None,
    jobs: Sequence[Job] | None,
    *,
    floor: float,
    since: str = "",
    state: str = "ok",
    peers: Sequence[Seen] = (),
) -> Verdict:
    """Return what the last minutes of a GPU were.

    Args:
        gpu: which.
        seen: its window.
        last: its last reading; None: it does not answer.
        jobs: that hold it; None where they cannot be seen.
        floor: mean utilization below which it is idle, 0-1.
        since: when it was last known, for a person.
        state: of the source.
        peers: windows of all GPUs of the same job, its own among them.
    """
    unknown = _unknown(gpu, seen, last, since, state)
    if unknown is not None or seen.busy_share is None or last is None:
        return Verdict("unknown", unknown or "unknown", "unknown")
    if seen.busy_share < floor:
        return _idle(seen.busy_share, last, jobs)
    return (
        _throttled(gpu, seen)
        or _lagging(seen, peers)
        or (
            Verdict("busy", f"busy {percent(seen.busy_share)}", "small")
            if seen.busy_share >= UTILIZED
            else Verdict("waits", f"waits {percent(1 - seen.busy_share)} of the time", "waits")
        )
    )


def _unknown(gpu: Gpu, seen: Seen, last: Reading | None, since: str, state: str) -> str | None:
    """Return why nothing can be said; None if something can."""
    from_then = f"unknown since {since}" if since else "unknown"
    if last is None:
        return f"{from_then}: {clean(state) if state != 'ok' else 'the GPU does not answer'}"
    if gpu.mig:
        return "unknown: split (MIG), and NVML does not say how busy its parts are; DCGM does"
    if last.utilization_percent is None:
        return f"{from_then}: the driver does not say how busy it is"
    if seen.known < KNOWN * seen.samples:
        return f"unknown: it answered in {seen.known} of {seen.samples} samples"
    return None


def _idle(busy: float, last: Reading, jobs: Sequence[Job] | None) -> Verdict:
    idle = f"idle {percent(1 - busy)}"
    memory = last.memory_used_bytes
    holds = f"{size(memory)} of memory" if memory is not None and memory >= HELD_BYTES else ""
    if jobs:
        return Verdict("idle", f"{idle}, held by {named(jobs)}", "held_by_process")
    if jobs is None or last.drawing:
        whose = "a desktop" if last.drawing else "processes that cannot be seen from here"
        told = {True: f"{idle}, held by {whose}: {holds or 'a process'}", False: f"{idle}, and free"}
        text = told[last.held] if last.held is not None else f"{idle}; who holds it cannot be seen from here"
        return Verdict("free" if last.held is False else "idle", text, "free" if last.held is False else "held_unseen")
    if holds:
        return Verdict("held", f"{idle}, {holds} held and no process", "held_without_process")
    return Verdict("free", f"{idle}, no process", "free")


def named(jobs: Sequence[Job]) -> str:
    """Return jobs for a person."""
    more = f" and {len(jobs) - SAID} more jobs" if len(jobs) > SAID else ""
    return "; ".join(shorten(clean(job.said), 80) for job in jobs[:SAID]) + more


def _throttled(gpu: Gpu, seen: Seen) -> Verdict | None:
    """Return that its clock is held back, where that costs anything."""
    share = seen.clock_mhz / gpu.sm_clock_max_mhz if seen.clock_mhz and gpu.sm_clock_max_mhz else None
    at = f", its clock at {percent(share)} of its maximum" if share is not None else ""
    hot, capped = seen.hot_share or 0.0, seen.capped_share or 0.0
    if hot >= THROTTLED and (share is None or hot * (1 - share) >= LOW):
        text = f"throttled by heat or hardware in {percent(hot)} of the busy samples{at}"
        return Verdict("throttled", text, "throttled")
    if capped >= THROTTLED and share is not None and share < LOW_CLOCK:
        return Verdict(
            "throttled", f"held back by its power limit in {percent(capped)} of the samples{at}", "throttled"
        )
    return None


def _lagging(seen: Seen, peers: Sequence[Seen]) -> Verdict | None:
    """Return that it is less or more busy than the other GPUs of its job, in both halves of the window."""
    halves = [one.halves for one in peers if one.halves is not None]
    if seen.halves is None or seen.busy_share is None or len(halves) < PEERS:
        return None
    far = [_distance(own, others) for own, others in zip(seen.halves, zip(*halves, strict=True), strict=True)]
    if not all(distance < 0 for distance in far) and not all(distance > 0 for distance in far):
        return None
    typical = median(one.busy_share for one in peers if one.busy_share is not None)
    text = f"busy {percent(seen.busy_share)}, its peers {percent(typical)}"
    return Verdict("lagging", text if far[0] < 0 else f"{text}: they may wait for it", "lagging")


def _distance(own: float, others: Sequence[float]) -> float:
    """Return how far it is from the median of all; 0 where that is not unusual."""
    middle = median(others)
    spread = median(abs(other - middle) for other in others)
    distance = own - middle
    return distance if abs(distance) > max(LAG, LAG_SPREADS * spread) else 0.0
