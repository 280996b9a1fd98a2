from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host.shares import READ as HOST_READ
from whyidle.rules.host.shares import unclaimed
from whyidle.rules.limited import READ, proviso, saved


class ZeroGradFill(Rule):
    """Every step writes zeros into each gradient, one launch per parameter, instead of dropping the gradients.

    ## Why it costs time
    `zero_grad(set_to_none=False)` fills the gradient of each parameter with zeros: a launch of some microseconds each,
    often at the end of a step, when the queue is empty. The backward pass then reads the zeros and adds to them, where
    without them it would only store. PyTorch before 2.0 did this by default.

    ## How we know
    Work is launched inside `zero_grad`, in pieces as many as a model has parameters. What it costs is the
    time that they run and the time that the GPU idles meanwhile. That the backward pass adds instead of
    storing is not counted.

    ## When to ignore it
    The code reads gradients after `zero_grad` and expects zeros, or a captured CUDA graph needs them to stay where they
    are.
    """

    needs = (("zero_grad_share", "idle_zero_grad_share", "zero_grad_fills_per_step"),)
    uses = tuple(dict.fromkeys((*HOST_READ, *READ)))
    explains = ("optimizer_host",)
    busy = ("zero_grad_share",)

    many = Threshold(20, "launches per step", source="judgement: fewer are no loss; foreach fills 100 at once")
    confidence = Threshold(0.9, "probability", source="judgement, not calibrated yet: place and count agree")
    applies = Threshold(0.9, "probability", source="judgement: few programs read gradients that were set to zero")

    @classmethod
    def speaks(cls, m: Measurements) -> bool:
        """Say whether there is a fill per parameter; if not, what zero_grad does is Python like any other."""
        return m.get("zero_grad_fills_per_step", 0.0) >= cls.many

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if not self.speaks(m):
            return
        busy, idle = saved(m, m.number("zero_grad_share")), unclaimed(m, "idle_zero_grad_share")
        yield from self.finding(
            f"Each step fills {m.number('zero_grad_fills_per_step'):.0f} gradients with zeros, "
            f"which costs {busy + idle:.0%} of the time.",
            lost_share=busy + idle,
            confidence=self.confidence,
            seen=(
                f"{m.number('zero_grad_fills_per_step'):.0f} launches per step in zero_grad: they run "
                f"{m.number('zero_grad_share'):.1%} of the time, and the GPU idles there {idle:.1%}{proviso(m)}"
            ),
            locations=m.one("idle_zero_grad_share" if idle >= busy else "zero_grad_share").locations,
            fixes=(
                Fix(
                    "drop the gradients instead of filling them",
                    "optimizer.zero_grad(set_to_none=True)  # the default since PyTorch 2.0; model.zero_grad(), too",
                    effort="argument",
                    applies=self.applies,
                    risk="gradients are None until the next backward pass: code that reads them has to expect it",
                    edits=(
                        Edit("remove_device", {"range": "zero_grad"}),
                        Edit("scale_host", {"range": "zero_grad"}, {"factor": 0.0}),
                    ),
                ),
            ),
        )

    cases = (
        Fires(
            "161 parameters, at the end of the step",
            zero_grad_share=0.001,
            idle_zero_grad_share=0.05,
            idle_optimizer_host_share=0.06,
            zero_grad_fills_per_step=161,
        ),
        Fires(
            "few large parameters of a GPU-bound job",
            zero_grad_share=0.03,
            idle_zero_grad_share=0.0,
            zero_grad_fills_per_step=200,
        ),
        Silent("beside a busy GPU", zero_grad_share=0.001, idle_zero_grad_share=0.0, zero_grad_fills_per_step=161),
        Silent("filled together: foreach", zero_grad_share=0.01, idle_zero_grad_share=0.03, zero_grad_fills_per_step=2),
        Silent(
            "the gap follows a blocking read: sync.scalar_read",
            zero_grad_share=0.001,
            idle_zero_grad_share=0.05,
            idle_optimizer_host_share=0.05,
            sync_host_share=0.05,
            zero_grad_fills_per_step=161,
        ),
    )
