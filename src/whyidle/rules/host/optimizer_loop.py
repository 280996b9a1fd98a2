from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host.shares import READ, unclaimed_part


class OptimizerLoop(Rule):
    """`Optimizer.step` updates parameter after parameter, in many small launches.

    ## Why it costs time
    Adam takes eight small kernels per parameter tensor. With hundreds of tensors that is thousands of launches of a few
    microseconds each, which the GPU often finishes sooner than the CPU launches the next. Each kernel reads and writes
    whole tensors again: AdamW moves 20 words per parameter in eight kernels, and 7 in one. `foreach=True` treats many
    tensors per launch, `fused=True` does the whole update in one pass.

    ## How we know
    `Optimizer.step` launches many kernels. What they cost is the idle time in which the launching thread is inside it,
    that in which one of its launches is under way, and the pauses between its kernels. Where the kernels treat one
    tensor each, as their names say, what a fused update would not need of their own time is added. A fused update is
    shorter for the CPU and for the GPU, so it does not matter for which of them the run waits. Setting gradients to
    zero is not counted: that is `compute.zero_grad_fill`.

    Since PyTorch 2.0 the built-in optimizers use foreach by default when all parameters are on the GPU, so kernels of
    one tensor each are those of an older PyTorch, of `foreach=False` or of an optimizer of someone else. Kernels that
    treat many tensors are foreach, for which `fused=True` is the next step.

    ## When to ignore it
    The optimizer has neither form, or its update is a small part of the step: `fused=True` then gains a
    few percent at most. foreach needs temporary memory of about the size of the parameters.
    """

    needs = (("idle_optimizer_host_share", "optimizer_launches_per_step"),)
    uses = (
        "launches_per_step", "idle_zero_grad_share", "optimizer", "optimizer_tensorwise_per_step",
        "optimizer_tensorwise_share", "optimizer_latency_share", "optimizer_kernel_gap_share", *READ,
    )  # fmt: skip
    explains = ("optimizer_host", "launch_latency", "kernel_gap")
    busy = ("optimizer_tensorwise_share",)

    loop = Threshold(100, "launches per step", source="foreach needs about one per operation and 100 tensors")
    fused = Threshold(20, "launches per step", source="a fused optimizer stays below that: nothing to merge")
    mostly = Threshold(0.75, "of launches", source="judgement: a few scalars beside a foreach update make no loop")
    confidence = Threshold(0.9, "probability", source="judgement, not calibrated yet: place and count agree")
    foreach_confidence = Threshold(0.5, "probability", source="judgement: foreach already, so the gain is smaller")
    applies = Threshold(0.8, "probability", source="judgement: Adam, AdamW and SGD have it, most others have foreach")
    residual = Threshold(
        0.1, "of host time", source="launches drop by one to two orders with foreach or fused; rounded up"
    )
    fused_left = Threshold(
        0.35, "of GPU time", source="words moved: AdamW 7 of 20, Adam 7 of 18 (torch/optim/adam.py, one tensor)"
    )

    has_fused = ("Adam", "AdamW", "SGD")
    has_foreach = ("ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop")

    @classmethod
    def host_idle(cls, m: Measurements) -> float:
        """Return the idle time in the optimizer's code, without that in which gradients are set to zero."""
        idle = m.number("idle_optimizer_host_share") - m.get("idle_zero_grad_share", 0.0)
        return max(idle, 0.0) * unclaimed_part(m)

    @classmethod
    def latency(cls, m: Measurements) -> float:
        """Return the idle time in which its launches are under way, which is this rule's; 0 where it is silent."""
        return m.get("optimizer_latency_share", 0.0) * unclaimed_part(m) if cls.speaks(m) else 0.0

    @classmethod
    def pauses(cls, m: Measurements) -> float:
        """Return the pauses between its kernels, which are this rule's; 0 where it is silent."""
        return m.get("optimizer_kernel_gap_share", 0.0) if cls.speaks(m) else 0.0

    @classmethod
    def busy_share(cls, m: Measurements) -> float:
        """Return the GPU time that a fused update would not need; of SGD, whose passes are few, and of foreach none."""
        if cls._name(m) in (*cls.has_foreach, "SGD") or not cls._one_by_one(m):
            return 0.0
        return m.get("optimizer_tensorwise_share", 0.0) * (1 - cls.fused_left)

    @classmethod
    def speaks(cls, m: Measurements) -> bool:
        """Say whether there are launches to merge; if not, what the optimizer does is Python like any other."""
        return m.get("optimizer_launches_per_step", 0.0) >= cls.fused

    @classmethod
    def _one_by_one(cls, m: Measurements) -> bool:
        """Say whether most of what it launches treats one tensor each."""
        single = m.get("optimizer_tensorwise_per_step", 0.0)
        return single >= max(cls.fused, cls.mostly * m.get("optimizer_launches_per_step", 0.0))

    @classmethod
    def _name(cls, m: Measurements) -> str:
        return str(m.one("optimizer").value) if "optimizer" in m else ""

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        launches = m.number("optimizer_launches_per_step")
        if not self.speaks(m):
            return
        idle, gpu = self.host_idle(m) + self.latency(m) + self.pauses(m), self.busy_share(m)
        lost = idle + gpu
        of = f" of {m.number('launches_per_step'):.0f}" if "launches_per_step" in m else ""
        kernels = f", and a fused update would save {gpu:.0%} of GPU time" if gpu else ""
        places = m.one("idle_optimizer_host_share").locations or m.one("optimizer_launches_per_step").locations
        yield from self.finding(
            f"Optimizer.step updates the parameters in {launches:.0f} launches, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if self._one_by_one(m) or launches >= self.loop else self.foreach_confidence,
            seen=f"{launches:.0f}{of} launches per step in Optimizer.step, the GPU idle there {idle:.0%} of the time"
            + kernels,
            locations=places,
            fixes=(
                Fix(
                    "update all parameters in a few kernels",
                    self._change(self._name(m)),
                    effort="argument",
                    applies=self.applies,
                    risk="sums round differently, in the last digits",
                    edits=(
                        Edit("merge_launches", {"range": "Optimizer.step"}),
                        Edit("scale_host", {"cause": "optimizer_host"}, {"factor": self.residual, "prior": 1.0}),
                        *self._shorter(gpu),
                    ),
                ),
            ),
        )

    def _shorter(self, gpu: float) -> Iterator[Edit]:
        """Yield what a fused update does to kernels of one tensor each, where it saves some of their time."""
        if gpu > 0:
            which = {"range": "Optimizer.step", "class": "tensorwise"}
            yield Edit("scale_device", which, {"factor": self.fused_left, "prior": 1.0})

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
        Fires(
            "AdamW of a GPU-bound job, one parameter after the other",
            idle_optimizer_host_share=0.0,
            optimizer_launches_per_step=713,
            optimizer_tensorwise_per_step=712,
            optimizer_tensorwise_share=0.1,
            optimizer_kernel_gap_share=0.03,
        ),
        Fires("foreach, still host-bound", idle_optimizer_host_share=0.13, optimizer_launches_per_step=60),
        Silent(
            "foreach: its kernels treat many tensors",
            idle_optimizer_host_share=0.0,
            optimizer_launches_per_step=60,
            optimizer_tensorwise_per_step=2,
            optimizer_tensorwise_share=0.05,
        ),
        Silent("the GPU is still busy with backward", idle_optimizer_host_share=0.01, optimizer_launches_per_step=1770),
        Silent(
            "gradients are set to zero meanwhile: compute.zero_grad_fill",
            idle_optimizer_host_share=0.06,
            idle_zero_grad_share=0.055,
            optimizer_launches_per_step=500,
        ),
        Silent("few launches: fused already", idle_optimizer_host_share=0.06, optimizer_launches_per_step=4),
    )
