"""Whose the time is in which only collectives run, so that no two rules ask for the same second.

What waits for a late rank, what is exchanged for nothing, and what slow links add have rules of their own. The rules on
overlap speak of what is left, each of its kind of collectives in proportion: the measurements do not say of which kind
those others were.
"""

from __future__ import annotations

from whyidle.model.measurement import Measurements
from whyidle.rules.dist.accumulation_sync import AccumulationSync
from whyidle.rules.dist.net_socket import NetSocket

READ = (
    "collective_exposed_share", "collective_wait_share", "shards_exposed_share", "grad_syncs_per_update",
    "grad_sync_again_share", "link_exposed_share", "link_speed_share",
)  # fmt: skip  # what the functions below look at


def left(m: Measurements) -> float:
    """Return the share of the window in which only collectives run, for no reason that another rule speaks of."""
    exposed = m.number("collective_exposed_share")
    waits = min(m.get("collective_wait_share", 0.0), exposed)
    return max(exposed - waits - AccumulationSync.claimed(m) - NetSocket.claimed(m), 0.0)


def of_shards(m: Measurements) -> float:
    """Return the part of that which gathers or scatters shards, 0-1."""
    exposed = m.number("collective_exposed_share")
    return min(m.get("shards_exposed_share", 0.0) / exposed, 1.0) if exposed > 0 else 0.0
