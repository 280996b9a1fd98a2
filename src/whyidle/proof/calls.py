"""What Python frames say of a line that keeps the host busy: how long the GPU idles while the call runs."""

from __future__ import annotations

from collections.abc import Mapping

from whyidle.model.finding import LOW, Finding
from whyidle.proof.recording import Recording, confirmed
from whyidle.proof.waits import SURE, Suspect, times

# By rule: what its lines call. None: whatever the line calls, as loggers have many names.
CALLED: Mapping[str, frozenset[str] | None] = {
    "sync.logging_metrics": None,
    "host.gc_pause": frozenset({"collect"}),
    "memory.allocator_thrash": frozenset({"empty_cache"}),
    "pause.checkpoint_sync": frozenset({"save", "save_checkpoint", "save_pretrained", "save_state"}),
}


def weigh(suspect: Suspect, recording: Recording) -> Finding | None:
    """Return a finding confirmed in whose call the GPU idles for what is worth telling; else None."""
    if suspect.finding.rule not in CALLED:
        return None
    known = CALLED[suspect.finding.rule]
    names = suspect.spot.names if known is None else suspect.spot.names & known
    here = [call for call in recording.stacks.calls if call.called in names and suspect.spot.inside(call.caller)]
    share = sum(call.idle_share for call in here)
    if share < LOW:
        return None
    first = max(here, key=lambda call: call.idle_share)
    often = times(sum(call.count for call in here))
    seen = f"{suspect.where} calls `{first.called}` {often}, and the GPU idles {recording.per_step(share)} meanwhile"
    return confirmed(suspect.finding, recording, share, SURE, seen, (first.location,))
