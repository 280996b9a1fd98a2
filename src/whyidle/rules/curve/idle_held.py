from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle


class IdleHeld(Rule):
    """A GPU is held and does nothing, to the end of the curve.

    ## Why it costs time
    A job that hangs, a notebook that was left open or a server without requests keeps its GPU: nobody else gets it,
    and its hours are billed.

    ## How we know
    Utilization is below 5% from the last work to the end of the recording, or over all of it, while processes are on
    the GPU or its memory is in use. Where neither was recorded, it is only known to be idle, which is said and is less
    sure. A GPU whose memory is free in that time is not held: nothing is said.

    ## When to ignore it
    The recording ends in an evaluation or a save that goes on, or the service waits for its users on purpose.
    """

    needs = (("curve_held_share", "curve_held_s"),)
    uses = ("curve_held_known", "curve_held_memory_share", *settle.READ)

    unknown = Threshold(0.5, "of confidence", source="judgement: the job may have ended before the recording did")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost, known = m.number("curve_held_share"), bool(m.get("curve_held_known", 0.0))
        long = span(m.number("curve_held_s"))
        held = "held, and does" if known else "left doing"
        memory = f", {m.number('curve_held_memory_share'):.0%} of its memory in use" if self._memory(m) else ""
        yield from self.finding(
            f"A GPU is {held} nothing for the last {long}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, 1.0 if known else self.unknown, logged=known),
            seen=f"{long} below 5% utilization at the end"
            + (memory if known else "; whether something holds the GPU was not recorded"),
            locations=m.one("curve_held_share").locations,
            fixes=(settle.by_trace("what the process that holds it waits for"),),
            candidates=("pause.evaluation", "pause.checkpoint_sync", "input.storage", "dist.straggler"),
        )

    def _memory(self, m: Measurements) -> bool:
        return "curve_held_memory_share" in m

    cases = (
        Fires(
            "an hour with full memory",
            curve_held_share=0.9,
            curve_held_s=3600.0,
            curve_held_known=True,
            curve_held_memory_share=0.95,
            curve_samples=3600,
        ),
        Fires("nothing is known of memory", curve_held_share=0.4, curve_held_s=600.0, curve_samples=1500),
        Silent("it works to the end", curve_held_share=0.0, curve_held_s=0.0, curve_samples=600),
    )
