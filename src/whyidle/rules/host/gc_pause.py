from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class GcPause(Rule):
    """The training thread collects garbage, and the GPU runs dry meanwhile.

    ## Why it costs time
    A full collection walks over every container object of the process. With a large program that takes
    50 ms to more than a second. `gc.collect()` in the loop, often next to `torch.cuda.empty_cache()`,
    pays that each time. With several ranks all others wait for the one that collects, in the next
    collective.

    ## How we know
    The recording shows a call of `gc.collect()` (with `with_stack=True`) or a range named for it, and no
    kernel runs meanwhile. A collection that Python starts by itself leaves nothing in a recording of
    torch.profiler and looks like any Python code (host.python_overhead), except with PyTorch 2.9 or
    later and `experimental_config=torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)`
    besides `with_stack=True`: then it is seen here, too.

    ## When to ignore it
    The process makes cycles that hold GPU memory (an exception's traceback, a model that refers to
    itself): without collections its memory grows. Then collect every few hundred steps.
    """

    needs = (("idle_gc_share",),)
    uses = ("gc_pauses", "steps", "late_gc_share")
    explains = ("gc",)

    confidence = Threshold(
        0.8, "probability", source="the call is in the recording; judgement that the GPU waits for nothing else"
    )
    applies = Threshold(0.9, "probability", source="judgement: a line less works in nearly every script")
    residual = Threshold(0.05, "of the pauses", source="judgement: one collection per some hundred steps remains")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        idle = m.number("idle_gc_share")
        lost = max(idle, m.get("late_gc_share", 0.0))  # the others wait for the rank that collects, each time another
        ranks = ", and the other ranks wait for the one that does" if lost > idle else ""
        count = f"{m.number('gc_pauses'):.0f} calls" if "gc_pauses" in m else "calls"
        steps = f" in {m.number('steps'):.0f} steps" if "steps" in m else ""
        yield from self.finding(
            f"Garbage collection stops the training thread while the GPU waits, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"{count} of the garbage collector{steps}, with no kernel running {idle:.1%} of the time{ranks}",
            locations=m.one("idle_gc_share").locations,
            fixes=(
                Fix(
                    "do not call gc.collect() in the loop, or rarely",
                    "if step % 500 == 0:  # the same step on all ranks\n    gc.collect()",
                    effort="argument",
                    applies=self.applies,
                    risk="memory held by reference cycles is freed later: watch memory for a few hundred steps",
                    edits=(Edit("scale_host", {"cause": "gc"}, {"factor": self.residual}),),
                ),
                Fix(
                    "if Python starts the collections by itself: only at chosen steps",
                    "gc.collect(); gc.freeze(); gc.disable()  # before the loop\n"
                    "if step % 500 == 0:  # in it, the same step on all ranks\n    gc.collect()",
                    effort="code",
                    applies=self.applies,
                    risk="memory held by reference cycles is freed later: watch memory for a few hundred steps",
                    edits=(Edit("scale_host", {"cause": "gc"}, {"factor": self.residual}),),
                ),
            ),
        )

    cases = (
        Fires("a quarter of a second, three times", idle_gc_share=0.08, gc_pauses=3, steps=40),
        Fires("gc.collect() in every step", idle_gc_share=0.5),
        Fires("eight ranks, each at its own time", idle_gc_share=0.01, late_gc_share=0.08, gc_pauses=1, steps=20),
        Silent("short ones", idle_gc_share=0.004, gc_pauses=12),
    )
