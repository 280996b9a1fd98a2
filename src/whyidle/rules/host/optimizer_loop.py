from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host.shares import READ, unclaimed_part


class OptimizerLoop(Rule):
    """`Optimizer.step` updates parameter after parameter, and the GPU waits for the launches.

    ## Why it costs time
    Adam takes about ten small kernels per parameter tensor. With hundreds of tensors that is thousands
    of launches of a few microseconds each, which no GPU needs as long for as the CPU takes to launch.
    `foreach=True` treats many tensors per launch, `fused=True` does the whole update in a few kernels.

    ## How we know
    The GPU is idle while the launching thread is inside `Optimizer.step`, and the step launches many
    kernels there. Setting gradients to zero is not counted: that is `compute.zero_grad_fill`.

    Since PyTorch 2.0 the built-in optimizers use foreach by default when all parameters are on the GPU,
    so this is an older PyTorch, `foreach=False` or an optimizer of someone else. Fewer than a hundred
    launches are probably foreach, for which `fused=True` is the next step.

    ## When to ignore it
    The optimizer has neither form, or its update is a small part of the step: `fused=True` then gains a
    few percent at most. foreach needs temporary memory of about the size of the parameters.
    """

    needs = (("idle_optimizer_host_share", "optimizer_launches_per_step"),)
    uses = ("launches_per_step", "idle_zero_grad_share", "optimizer", *READ)
    explains = ("optimizer_host",)

    loop = Threshold(100, "launches per step", source="foreach needs about one per operation and 100 tensors")
    fused = Threshold(20, "launches per step", source="a fused optimizer stays below that: nothing to merge")
    confidence = Threshold(0.9, "probability", source="judgement, not calibrated yet: place and count agree")
    foreach_confidence = Threshold(0.5, "probability", source="judgement: foreach already, so the gain is smaller")
    applies = Threshold(0.8, "probability", source="judgement: Adam, AdamW and SGD have it, most others have foreach")
    residual = Threshold(
        0.1, "of host time", source="launches drop by one to two orders with foreach or fused; rounded up"
    )

    has_fused = ("Adam", "AdamW", "SGD")
    has_foreach = ("ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop")

    @classmethod
    def idle(cls, m: Measurements) -> float:
        """Return the idle time in the optimizer, without that in which gradients are set to zero."""
        idle = m.number("idle_optimizer_host_share") - m.get("idle_zero_grad_share", 0.0)
        return max(idle, 0.0) * unclaimed_part(m)

    @classmethod
    def speaks(cls, m: Measurements) -> bool:
        """Say whether there are launches to merge; if not, what the optimizer does is Python like any other."""
        return m.get("optimizer_launches_per_step", 0.0) >= cls.fused

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        launches = m.number("optimizer_launches_per_step")
        if not self.speaks(m):
            return
        lost = self.idle(m)
        of = f" of {m.number('launches_per_step'):.0f}" if "launches_per_step" in m else ""
        yield from self.finding(
            f"Optimizer.step makes {launches:.0f} launches while the GPU waits, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if launches >= self.loop else self.foreach_confidence,
            seen=f"{launches:.0f}{of} launches per step in Optimizer.step, the GPU idle there {lost:.0%} of the time",
            locations=m.one("idle_optimizer_host_share").locations,
            fixes=(
                Fix(
                    "update all parameters in a few kernels",
                    self._change(str(m.one("optimizer").value) if "optimizer" in m else ""),
                    effort="argument",
                    applies=self.applies,
                    risk="sums round differently, in the last digits",
                    edits=(
                        Edit("merge_launches", {"range": "Optimizer.step"}),
                        Edit("scale_host", {"cause": "optimizer_host"}, {"factor": self.residual}),
                    ),
                ),
            ),
        )

    def _change(self, optimizer: str) -> str:
        if optimizer in self.has_fused:
            return f"torch.optim.{optimizer}(model.parameters(), ..., fused=True)"
        if optimizer in self.has_foreach:
            return f"torch.optim.{optimizer}(model.parameters(), ..., foreach=True)  # it has no fused form for GPUs"
        if optimizer:
            return f"step = torch.compile(optimizer.step)  # unless {optimizer} has a foreach or a fused form"
        return "torch.optim.AdamW(model.parameters(), ..., fused=True)  # also Adam, SGD; others: foreach=True"

    cases = (
        Fires("Adam over 161 tensors", idle_optimizer_host_share=0.14, optimizer_launches_per_step=1770),
        Fires("foreach, still host-bound", idle_optimizer_host_share=0.13, optimizer_launches_per_step=60),
        Silent("the GPU is still busy with backward", idle_optimizer_host_share=0.01, optimizer_launches_per_step=1770),
        Silent(
            "gradients are set to zero meanwhile: compute.zero_grad_fill",
            idle_optimizer_host_share=0.06,
            idle_zero_grad_share=0.055,
            optimizer_launches_per_step=500,
        ),
        Silent("few launches: fused already", idle_optimizer_host_share=0.06, optimizer_launches_per_step=4),
    )
