from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class Startup(Rule):
    """Code is compiled or loaded while the GPU waits: first uses inside the window.

    ## Why it costs time
    The first call of a kernel loads its code (CUDA loads lazily), the first call of a compiled function compiles
    it, the first call of a library sets it up. Each takes milliseconds to minutes, and the GPU waits. Once per job
    that is nothing; inside a recording of a few steps it hides everything else; at every new shape it never ends.

    ## How we know
    The GPU is idle while the launching thread is in a range or frame that compiles, or in a driver call that took
    1 ms and more: a launch takes 2-30 µs, and synchronization, copies and allocation are counted elsewhere.

    ## When to ignore it
    The recording holds the first steps of the job. Record later ones, after a warm-up, before you change anything.
    """

    needs = (("idle_compile_share",),)
    uses = ("steps", "compiled")

    confidence = Threshold(
        0.7, "probability", source="judgement, not calibrated yet: a contended driver lock looks alike"
    )
    applies = Threshold(
        0.5, "probability", source="judgement: half of such recordings lack a warm-up, others recompile"
    )

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("idle_compile_share")
        steps = f" over {m.number('steps'):.0f} steps" if "steps" in m else ""
        compiled = "compiled" in m and bool(m.one("compiled").value)
        yield from self.finding(
            f"Code is compiled or loaded while the GPU waits, which costs {lost:.0%} of the recorded time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"GPU idle {lost:.0%} of the time{steps}, the host compiling or in a driver call of 1 ms and more",
            locations=m.one("idle_compile_share").locations,
            fixes=(
                Fix(
                    "record after a warm-up; if it stays, shapes change: pad them or compile with dynamic=True",
                    "profile(schedule=torch.profiler.schedule(wait=5, warmup=3, active=6), ...)"
                    + ("\nTORCH_LOGS=recompiles python train.py   # says what changes" if compiled else ""),
                    effort="setting",
                    applies=self.applies,
                    risk="dynamic=True makes kernels somewhat slower than fixed shapes",
                    edits=(Edit("scale_host", {"cause": "compile"}, {"factor": 0.0}),),
                ),
            ),
            candidates=("compile.recompile", "compute.cudnn_autotune"),
        )

    cases = (
        Fires("one launch call of 1.5 s: the kernel's code is loaded", idle_compile_share=0.55, steps=5),
        Fires("recompiling", idle_compile_share=0.2, compiled=True),
        Silent("within noise", idle_compile_share=0.01, steps=5),
    )
