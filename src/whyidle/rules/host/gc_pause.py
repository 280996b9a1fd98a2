from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class GcPause(Rule):
    """Python's garbage collector stops the training thread, and the GPU runs dry.

    ## Why it costs time
    A full collection walks over every container object of the process. With a large program that takes
    50 ms to more than a second, at a moment that nobody chose. With several ranks each pauses at a
    moment of its own, and all others wait for it in the next collective.

    ## How we know
    The recording shows a collection on the launching thread, or a pause of more than 5 ms in which
    nothing at all was recorded, with no kernel running meanwhile.

    ## When to ignore it
    The process makes cycles that hold GPU memory (an exception's traceback, a model that refers to
    itself): without collections its memory grows. Then collect every few hundred steps, never never.
    """

    needs = (("idle_gc_share",),)
    uses = ("gc_pauses", "steps")

    confidence = Threshold(
        0.6, "probability", source="judgement, not calibrated yet: a pause without events may be something else"
    )
    applies = Threshold(0.9, "probability", source="judgement: two lines that work in every script")
    residual = Threshold(0.05, "of the pauses", source="judgement: one planned collection per 500 steps remains")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("idle_gc_share")
        pauses = f"{m.number('gc_pauses'):.0f} pauses" if "gc_pauses" in m else "pauses"
        steps = f" in {m.number('steps'):.0f} steps" if "steps" in m else ""
        yield from self.finding(
            f"Garbage collection stops the training thread while the GPU waits, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"{pauses}{steps} with no kernel running, {lost:.0%} of the time together",
            locations=m.one("idle_gc_share").locations,
            fixes=(
                Fix(
                    "collect when it suits, on all ranks at the same step",
                    "import gc\n"
                    "gc.collect(); gc.freeze(); gc.disable()   # before the loop\n"
                    "if step % 500 == 0: gc.collect()          # in it",
                    effort="code",
                    applies=self.applies,
                    risk="memory held by reference cycles is freed later: watch the resident size",
                    edits=(Edit("scale_host", {"cause": "gc"}, {"factor": self.residual}),),
                ),
            ),
        )

    cases = (
        Fires("a quarter of a second, three times", idle_gc_share=0.08, gc_pauses=3, steps=40),
        Fires("gc.collect() in every step", idle_gc_share=0.5),
        Silent("short ones", idle_gc_share=0.004, gc_pauses=12),
    )
