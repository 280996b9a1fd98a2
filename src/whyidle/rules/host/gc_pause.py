from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
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

    `whyidle run` sees every collection, whoever starts it. Its share is the training process's time in the collector:
    no more of it counts than the GPU was idle. Where its utilization is not known, pauses that its queue can hide are
    told with less confidence.

    ## When to ignore it
    The process makes cycles that hold GPU memory (an exception's traceback, a model that refers to
    itself): without collections its memory grows. Then collect every few hundred steps.
    """

    needs = (("idle_gc_share",), ("host_gc_share",))
    uses = ("gc_pauses", "steps", "late_gc_share", "gc_collections", "watched_s", *waits.READ_LEFT)
    explains = ("gc",)

    confidence = Threshold(
        0.8, "probability", source="the call is in the recording; judgement that the GPU waits for nothing else"
    )
    hidden = Threshold(
        0.02, "s", source="judgement: a host that runs ahead has some milliseconds of work queued, seldom more than 20"
    )
    hidden_confidence = Threshold(
        0.4, "probability", source="judgement, not calibrated yet: the GPU may have had work all along"
    )
    applies = Threshold(0.9, "probability", source="judgement: a line less works in nearly every script")
    residual = Threshold(0.05, "of the pauses", source="judgement: one collection per some hundred steps remains")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        yield from self._watched(m) if "host_gc_share" in m else self._recorded(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        lost = max(waits.timed(m, "host_gc_share"), m.get("late_gc_share", 0.0))
        full = m.get("gc_collections", 0.0)
        long = m.number("host_gc_share") * m.number("watched_s") / full if full >= 1 and "watched_s" in m else None
        sure = waits.known(m) or (long is not None and long >= self.hidden)
        count = f", {full:.0f} full ones" if "gc_collections" in m else ""
        each = f" of at most {long * 1e3:.0f} ms on average" if long is not None else ""
        yield from self.finding(
            f"Garbage collection stops the training thread, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if sure else self.hidden_confidence,
            seen=f"{m.number('host_gc_share'):.1%} of the watched time in the collector{count}{each}",
            locations=m.one("host_gc_share").locations,
            fixes=self._fixes(),
        )

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        idle = m.number("idle_gc_share")
        lost = max(idle, m.get("late_gc_share", 0.0))  # the others wait for the rank that collects, each time another
        ranks = ", and the other ranks wait for the one that does" if lost > idle else ""
        count = f"{m.number('gc_pauses'):.0f} calls" if "gc_pauses" in m else "calls"
        steps = f" in {m.number('steps'):.0f} steps" if "steps" in m else ""
        yield from self.finding(
            f"Garbage collection stops the training thread while {waits.who(m)} waits, "
            f"which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"{count} of the garbage collector{steps}, with no kernel running {idle:.1%} of the time{ranks}",
            locations=m.one("idle_gc_share").locations,
            fixes=self._fixes(),
        )

    def _fixes(self) -> tuple[Fix, ...]:
        return (
            Fix(
                "do not call gc.collect() in the loop, or rarely",
                "if step % 500 == 0:  # the same step on all ranks\n    gc.collect()",
                effort="argument",
                applies=self.applies,
                risk="memory held by reference cycles is freed later: watch memory for a few hundred steps",
                edits=(Edit("scale_host", {"cause": "gc"}, {"factor": self.residual, "prior": 1.0}),),
            ),
            Fix(
                "if Python starts the collections by itself: only at chosen steps",
                "gc.collect(); gc.freeze(); gc.disable()  # before the loop\n"
                "if step % 500 == 0:  # in it, the same step on all ranks\n    gc.collect()",
                effort="code",
                applies=self.applies,
                risk="memory held by reference cycles is freed later: watch memory for a few hundred steps",
                edits=(Edit("scale_host", {"cause": "gc"}, {"factor": self.residual, "prior": 1.0}),),
            ),
        )

    cases = (
        Fires("watched: a quarter of a second, thirty times", host_gc_share=0.08, gc_collections=30, watched_s=94.0),
        Fires("watched: gc.collect() in every step, without a GPU", host_gc_share=0.5, on_gpu=False),
        Silent(
            "watched: the GPU has work queued meanwhile",
            host_gc_share=0.08,
            gc_collections=900,
            watched_s=90.0,
            on_gpu=True,
            utilization_mean_share=0.99,
        ),
        Silent("watched: as many as any program has", host_gc_share=0.004, gc_collections=3, watched_s=60.0),
        Fires("a quarter of a second, three times", idle_gc_share=0.08, gc_pauses=3, steps=40),
        Fires("gc.collect() in every step", idle_gc_share=0.5),
        Fires("eight ranks, each at its own time", idle_gc_share=0.01, late_gc_share=0.08, gc_pauses=1, steps=20),
        Silent("short ones", idle_gc_share=0.004, gc_pauses=12),
    )
