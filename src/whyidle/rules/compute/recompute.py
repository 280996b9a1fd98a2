from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class Recompute(Rule):
    """The forward pass runs a second time during backward: activation checkpointing.

    ## Why it costs time
    Checkpointing frees activations and computes them again when backward needs them. That trades time
    for memory: a full one adds a forward pass, about a third of the arithmetic of a step.

    ## How we know
    Kernels of forward operators run again under autograd's thread during backward.

    ## When to ignore it
    The model does not fit otherwise. The recording does not show how much memory was to spare:
    `torch.cuda.max_memory_allocated()` against the size of the GPU does.
    """

    needs = (("recompute_share",),)
    uses = READ

    confidence = Threshold(
        0.8,
        "probability",
        source="that it happens is recorded: right in 15 of 15 simulated jobs, bench/README.md; `applies` says "
        "whether it could stop",
    )
    applies = Threshold(0.4, "probability", source="judgement: someone turned it on because memory was short")
    selective = Threshold(0.5, "of recomputation", source="judgement: keeping half of the layers' activations")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        share = m.number("recompute_share")
        lost = saved(m, share)
        yield from self.finding(
            f"Activation checkpointing computes the forward pass again, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"forward kernels that run again during backward: {share:.0%} of the time{proviso(m)}",
            locations=m.one("recompute_share").locations,
            fixes=(
                Fix(
                    "turn it off if memory allows",
                    "model.gradient_checkpointing_disable()  # transformers; else: no torch.utils.checkpoint",
                    effort="setting",
                    applies=self.applies,
                    risk="out of memory: check torch.cuda.max_memory_allocated() first",
                    edits=(Edit("remove_device", {"class": "recompute"}),),
                ),
                Fix(
                    "checkpoint only some layers",
                    "x = checkpoint(layer, x, use_reentrant=False) if i % 2 else layer(x)",
                    effort="code",
                    applies=self.applies,
                    risk="needs memory for the activations of the others",
                    edits=(Edit("scale_device", {"class": "recompute"}, {"factor": self.selective, "prior": 1.0}),),
                ),
            ),
        )

    cases = (
        Fires("full checkpointing", recompute_share=0.22),
        Silent("none", recompute_share=0.0),
        Silent("one cheap layer", recompute_share=0.01),
        Silent("the GPU waits for the host anyway", recompute_share=0.22, gpu_limited_share=0.05),
    )
