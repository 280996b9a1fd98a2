"""What a slow host can cost a job that was watched: at most the time in which its GPU is idle and no named wait is on.

The counters of a watched run say what the host did, not what the GPU waited for. So a host's time bounds a loss only
together with this room; of a job without a GPU it is all the time that is not spent waiting. Rules that bound a loss
by it take turns, so that no two ask for the same time: what was timed by itself comes first, and what is estimated
from a factor or a count gets what is left (debugger_overhead, gil_contention, graph_break, numa, allocator_thrash,
cpu_fallback, each less what those before it claim).
"""

from __future__ import annotations

from whyidle.model.measurement import Measurements

NAMED = tuple(
    f"lost_{wait}_share" for wait in ("data_zero", "data_workers", "data_first", "data_other", "save", "evaluation")
)
TIMED = ("host_environment_share", "host_gc_share", "compile_late_share", "main_run_delay_share")
READ = ("on_gpu", "utilization_mean_share", *NAMED)
READ_LEFT = (*READ, *TIMED)


def room(m: Measurements) -> float:
    """Return the share of watched time that a slow host may have cost, 0-1."""
    waits = sum(m.get(name, 0.0) for name in NAMED)
    return max(1 - waits - (m.get("utilization_mean_share", 0.0) if on_gpu(m) else 0.0), 0.0)


def at_work(m: Measurements) -> float:
    """Return the share of watched time in which the GPU works and nothing waits, 0-1: what a slow GPU can have cost."""
    if not on_gpu(m):
        return 0.0
    waits = sum(m.get(name, 0.0) for name in NAMED)
    return max(min(m.get("utilization_mean_share", 0.0), 1 - waits), 0.0)


def timed(m: Measurements, name: str) -> float:
    """Return what one of `TIMED` has of the room, those before it served first."""
    left = room(m)
    for other in TIMED:
        share = min(m.get(other, 0.0), left)
        if other == name:
            return share
        left -= share
    raise KeyError(name)


def left(m: Measurements, *claimed: float) -> float:
    """Return the room less what was timed by itself, and less what other rules claim of it."""
    return max(room(m) - sum(timed(m, name) for name in TIMED) - sum(claimed), 0.0)


def who(m: Measurements) -> str:
    """Return what waits: the GPU, or the training of a job that computes on no GPU."""
    return "the GPU" if on_gpu(m) else "the training"


def known(m: Measurements) -> bool:
    """Say whether `room` is more than what is left of the time: of a GPU, its utilization has to be measured."""
    return not on_gpu(m) or "utilization_mean_share" in m


def on_gpu(m: Measurements) -> bool:
    """Say whether the job computes on a GPU, as far as is known."""
    return "on_gpu" not in m or bool(m.one("on_gpu").value)
