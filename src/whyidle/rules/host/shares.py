"""Whose the host's idle time is, so that no two rules ask for the same second.

A blocking read empties the launch queue; the gaps after it look like slow launches, slow Python or a slow
optimizer. The rules that name the read speak for them, and the rules of this folder for what is left.
"""

from __future__ import annotations

from whyidle.model.measurement import Measurements
from whyidle.rules.transfer.h2d_in_step import H2dInStep

HOST_CAUSES = (
    "idle_dispatch_share",
    "idle_autograd_host_share",
    "idle_launch_latency_share",
    "idle_optimizer_host_share",
    "idle_python_share",
)
_WAITS = ("idle_sync_return_share", "idle_h2d_prep_share")
_SYNCS = ("sync_scalar_lost_share", "sync_data_dependent_lost_share", "sync_grad_clip_lost_share")

READ = (*HOST_CAUSES, *_WAITS, *_SYNCS, *H2dInStep.needs[0])  # what `unclaimed` looks at


def unclaimed(m: Measurements, *causes: str) -> float:
    """Return the part of these causes' idle share that no rule about blocking claims.

    What is claimed is taken from all causes in proportion: the measurements do not say from which.
    """
    pool = sum(m.get(name, 0.0) for name in (*HOST_CAUSES, *_WAITS))
    claimed = sum(m.get(name, 0.0) for name in _SYNCS) + H2dInStep.claimed(m)
    left = max(0.0, 1 - claimed / pool) if pool > 0 else 1.0
    return sum(m.get(name, 0.0) for name in causes) * left
