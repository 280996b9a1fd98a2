from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules import live
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
    sure. A GPU whose memory is free in that time is not held: nothing is said. Of a job that runs and is looked at from
    outside it is seen that its processes are on the GPU, and that they compute and read nothing meanwhile.

    ## When to ignore it
    The recording ends in an evaluation or a save that goes on, or the service waits for its users on purpose.
    """

    needs = (("curve_held_share", "curve_held_s"),)
    uses = ("curve_held_known", "curve_held_memory_share", "curve_gpus", *live.NEEDS, *live.READ, *settle.READ)

    least = Threshold(60, "s", source="method 3.2: a minute of zeros; in less a job may load, save or evaluate")
    unknown = Threshold(0.5, "of confidence", source="judgement: the job may have ended before the recording did")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if "live_s" in m:
            yield from self._now(m)
            return
        if m.number("curve_held_s") < self.least:
            return
        lost, known = m.number("curve_held_share"), bool(m.get("curve_held_known", 0.0))
        long = span(m.number("curve_held_s"))
        memory = f", {m.number('curve_held_memory_share'):.0%} of its memory in use" if self._memory(m) else ""
        yield from self.finding(
            f"{self._who(m, known)} nothing for the last {long}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, 1.0 if known else self.unknown, logged=known),
            seen=f"{long} below 5% utilization at the end"
            + (memory if known else "; whether something holds the GPU was not recorded"),
            locations=m.one("curve_held_share").locations,
            fixes=(settle.by_trace("what the process that holds it waits for"),),
            candidates=("pause.evaluation", "pause.checkpoint_sync", "input.storage", "dist.straggler"),
        )

    def _now(self, m: Measurements) -> Iterator[Finding]:
        """Yield the same of a job that runs: nothing more of it can be seen in some seconds."""
        if live.watched(m) and live.answer(m) is not None:  # what holds it up is seen
            return
        lost = m.number("curve_held_share")
        seconds = f"{m.number('live_s'):.0f} s"
        memory = f"; {m.number('curve_held_memory_share'):.0%} of its memory in use" if self._memory(m) else ""
        yield from self.finding(
            f"The job holds its GPU and does nothing: {lost:.0%} of {seconds} without work, on CPUs, too.",
            lost_share=lost,
            confidence=settle.MOST,
            seen=f"utilization below 5% in all of {seconds}, and its processes sleep" + memory,
            locations=m.one("curve_held_share").locations,
            fixes=(settle.by_stacks("what its threads wait for"),),
            candidates=("dist.straggler", "pause.checkpoint_sync", "input.storage"),
        )

    def _who(self, m: Measurements, known: bool) -> str:
        """Return which GPUs of the recording do nothing: all, some, or one by its name."""
        count = round(m.get("curve_gpus", 1.0))
        held = [part.subject for part in m.each("curve_held_share") if " gpu " in f" {part.subject}" and part.value]
        one, several = ("is held, and does", "are held, and do") if known else ("is left doing", "are left doing")
        if count > 1 and len(held) > 1:
            return f"{'All' if len(held) == count else f'{len(held)} of'} {count} GPUs {several}"
        return f"{held[0].replace('gpu', 'GPU') if count > 1 and held else 'A GPU'} {one}"

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
        Fires(
            "a job that runs and hangs",
            curve_held_share=1.0,
            curve_held_s=15.0,
            curve_held_known=True,
            live_s=15.0,
        ),
        Silent("a job that runs and computes", curve_held_share=0.0, curve_held_s=0.0, live_s=15.0),
        Silent("ten zeros", curve_held_share=1.0, curve_held_s=10.0, curve_samples=10),
        Silent("it works to the end", curve_held_share=0.0, curve_held_s=0.0, curve_samples=600),
    )
