from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class ComputeBound(Rule):
    """The GPU always has work: nothing needs doing about idle time.

    ## Why it costs time
    It does not. The step is as long as the GPU computes; a faster loader, fewer synchronizations or
    fewer launches would change nothing.

    ## How we know
    A kernel, copy or fill runs for more than 97% of the window, and little of that is a collective that
    waits for another rank, which counts as busy though nothing is computed.

    ## When to ignore it
    Busy is not efficient. The compute.* rules look at what the kernels do: precision, layout, small grids.
    """

    needs = (("gpu_idle_share",),)
    uses = ("collective_wait_share", "collective_exposed_share", "h2d_exposed_share", "d2h_exposed_share")

    healthy = Threshold(0.03, "of window", source="docs/method.md, Healthy; public GPU-bound recordings are at 2.6%")
    waiting = Threshold(0.05, "of window", source="medium severity: then a peer is what to look at")
    confidence = Threshold(0.95, "probability", source="idle time is measured, not inferred")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        idle = m.number("gpu_idle_share")
        alone = max(m.get(self.uses[0], 0.0), sum(m.get(name, 0.0) for name in self.uses[1:]))
        if idle >= self.healthy or alone >= self.waiting:
            return
        yield Finding(
            rule=self.id,
            severity="low",
            confidence=float(self.confidence),
            message=f"The GPU is busy {1 - idle:.1%} of the time: nothing needs doing about idle time.",
            lost_share=0.0,
            seen=f"idle {idle:.1%}, below the {self.healthy:.0%} of a healthy job",
            locations=m.one("gpu_idle_share").locations,
        )

    cases = (
        Fires("GPU-bound", gpu_idle_share=0.026),
        Silent("idle time to look at", gpu_idle_share=0.165),
        Silent("busy with nothing but collectives", gpu_idle_share=0.01, collective_exposed_share=0.6),
        Silent("busy with waiting for a peer", gpu_idle_share=0.01, collective_wait_share=0.3),
    )
