"""What Python frames say of a line that keeps the host busy: how long the GPU idles while the call runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from whyidle.measure.stacks import IdleCall
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


def weigh(suspects: Sequence[Suspect], recording: Recording) -> Iterator[Finding | None]:
    """Yield for each finding that it is confirmed where the GPU idles in its call for what is worth telling; else None.

    A call that several lines of one function make is nobody's: which of them it was no frame tells.
    """
    here = [frozenset(calls_of(suspect, recording)) for suspect in suspects]
    lines = {index: (suspect.spot.file, suspect.spot.line) for index, suspect in enumerate(suspects)}
    for index, suspect in enumerate(suspects):
        shared = any(calls & here[index] and lines[other] != lines[index] for other, calls in enumerate(here))
        share = sum(call.idle_share for call in here[index])
        if shared or share < LOW:
            yield None
            continue
        first = max(here[index], key=lambda call: call.idle_share)
        often = times(sum(call.count for call in here[index]))
        idle = recording.per_step(share)
        seen = f"{suspect.where} calls `{first.called}` {often}, and the GPU idles {idle} meanwhile"
        yield confirmed(suspect.finding, recording, share, SURE, seen, (first.location,))


def calls_of(suspect: Suspect, recording: Recording) -> Iterator[IdleCall]:
    """Yield the calls that a line makes, and in which the GPU idles."""
    if suspect.finding.rule not in CALLED:
        return
    known = CALLED[suspect.finding.rule]
    names = suspect.spot.names if known is None else suspect.spot.names & known
    yield from (call for call in recording.stacks.calls if call.called in names and suspect.spot.inside(call.caller))
