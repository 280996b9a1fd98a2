"""Whose the host's idle time is, so that no two rules ask for the same second.

A blocking read empties the launch queue; the gaps after it look like slow launches, slow Python or a slow
optimizer. The rules that name the read speak for them, and the rules of this folder for what is left.
"""

from __future__ import annotations

from whyidle.model.measurement import Measurements
from whyidle.rules.transfer.h2d_in_step import H2dInStep

# What a late host did in a gap that a wait for the GPU may have opened. Loading, saving and compiling are not in it: a
# wait delays them too, but nobody would call them launching.
_LATE = tuple(
    f"idle_{cause}_share"
    for cause in ("sync_return", "h2d_prep", "optimizer_host", "autograd_host", "dispatch", "python", "launch_latency")
)
READ = (*_LATE, "sync_host_share", *H2dInStep.needs[0])  # what `unclaimed` looks at


def unclaimed(m: Measurements, share: str) -> float:
    """Return the part of an idle share that no rule about blocking claims."""
    return m.number(share) * unclaimed_part(m)


def unclaimed_part(m: Measurements) -> float:
    """Return which part of the host's idle time no rule about blocking claims, 0-1.

    What is claimed is taken from the host's own work in proportion: the measurements do not say from which.
    """
    late = sum(m.get(name, 0.0) for name in _LATE)
    claimed = m.get("sync_host_share", 0.0) + H2dInStep.claimed(m)
    return max(0.0, 1 - claimed / late) if late > 0 else 1.0
