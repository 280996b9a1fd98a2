"""What is true of a run: busy and idle time of each device, and the cause of each idle moment.

All of it comes from the simulator's own state. An operation knows what it started last upon. Where that is its launch,
the GPU was waiting for the host, and the host has noted what it was doing. The causes are those of whyidle's
docs/method.md; how they are found here and there has nothing in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from world.process import ARRIVAL, EVENT, ORDER, Process, Work

CAUSES = (
    "data_wait", "checkpoint", "evaluation", "logging", "sync_return", "allocator", "h2d_prep", "gc", "compile",
    "optimizer_host", "autograd_host", "dispatch", "python", "launch_latency", "kernel_gap", "stream_wait", "peer_wait",
    "queue_stall", "unknown",
)  # fmt: skip
CODE = {cause: code for code, cause in enumerate(CAUSES)}
QUEUED = {ORDER: "kernel_gap", EVENT: "stream_wait"}
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU's account over its window. Times in microseconds."""

    start: float
    end: float
    busy: float
    idle: dict[str, float]
    collective_wait: float


def account(process: Process) -> Device:
    """Return what the GPU of a rank did from the first recorded step mark to the last, or from first to last work."""
    done = [work for work in process.work if work.start >= process.began]
    if process.job.marks:
        low, high = process.began, process.marks[-1]
    else:
        low, high = min(w.start for w in done), max(w.end for w in done)
    idle = dict.fromkeys(CAUSES, 0.0)
    late: list[tuple[float, float]] = []  # idle time for which the host was late
    edge, busy = low, 0.0
    for work in sorted(done, key=lambda w: (w.start, w.call)):
        if work.start >= high:
            break
        if work.start > edge:
            _explain(work, edge, idle, late)
        busy += max(0.0, min(work.end, high) - max(work.start, edge))
        edge = max(edge, work.end)
    if edge < high:
        late.append(_rest(done, edge, high))
        idle["launch_latency"] += high - late[-1][1]
    for cause, us in zip(CAUSES, _host(process, late), strict=True):
        idle[cause] += float(us)
    return Device(low, high, busy, idle, process.collective_wait)


def _explain(work: Work, edge: float, idle: dict[str, float], late: list[tuple[float, float]]) -> None:
    """Account for the idle time from `edge` to the start of an operation."""
    if work.reason != ARRIVAL:
        idle[QUEUED[work.reason]] += work.start - edge
        return
    asked = max(edge, work.call)
    late.append((edge, asked))
    idle["launch_latency"] += work.start - asked


def _rest(done: list[Work], edge: float, high: float) -> tuple[float, float]:
    """Return the late part of the idle time at the end: until the launch of what comes after, if that lies within."""
    following = min((work.call for work in done if work.start >= high), default=high)
    return edge, min(max(edge, following), high)


def _host(process: Process, late: list[tuple[float, float]]) -> Floats:
    """Return how long the host did what, in all of these intervals."""
    totals = np.zeros(len(CAUSES))
    if not late:
        return totals
    times = np.array([time for time, _ in process.causes])
    codes = np.array([CODE[cause] for _, cause in process.causes])
    lasts = np.diff(times, append=max(times[-1], late[-1][1]) + 1.0)
    share = np.zeros((len(times) + 1, len(CAUSES)))
    share[np.arange(len(times)) + 1, codes] = lasts
    until = np.cumsum(share, axis=0)

    def up_to(moments: Floats) -> Floats:
        row = np.maximum(np.searchsorted(times, moments, "right") - 1, 0)
        known = until[row].copy()
        known[np.arange(len(row)), codes[row]] += moments - times[row]
        return known

    spans = np.array(late)
    result: Floats = (up_to(spans[:, 1]) - up_to(spans[:, 0])).sum(axis=0)
    return result
