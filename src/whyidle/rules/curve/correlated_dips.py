from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent
from whyidle.rules.curve import settle


class CorrelatedDips(Rule):
    """All GPUs fall to zero together, now and then.

    ## Why it costs time
    Something holds all ranks at once: a checkpoint, an evaluation, one rank that is late, or the network.

    ## How we know
    In most samples in which any GPU is below 10%, four fifths of all GPUs are. Dips that come at one interval are told
    by `curve.sawtooth`, which says that they are of all GPUs. Steps in which all ranks wait for their batches look
    the same where they are shorter than the time between samples and the GPU counts over a part of that.

    ## When to ignore it
    The curves are those of one process that uses several GPUs in turn.
    """

    needs = (("curve_correlated_share", "curve_together_share"),)
    uses = ("curve_gpus", *settle.READ)

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost, together = m.number("curve_correlated_share"), m.number("curve_together_share")
        yield from self.finding(
            f"All GPUs fall to zero together, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, together),
            seen=f"in {together:.0%} of the samples in which any of {m.get('curve_gpus', 2.0):.0f} GPUs is below 10%, "
            "nearly all are; not at one interval",
            locations=m.one("curve_correlated_share").locations,
            fixes=(settle.by_trace("all ranks together"),),
            candidates=(
                "pause.checkpoint_sync", "pause.evaluation", "dist.straggler", "dist.input_straggler",
                "input.storage", "dist.net_socket", "input.workers_too_few",
            ),
        )  # fmt: skip

    cases = (
        Fires(
            "eight GPUs wait together",
            curve_correlated_share=0.2,
            curve_together_share=0.95,
            curve_gpus=8,
            curve_samples=600,
        ),
        Silent("each by itself", curve_correlated_share=0.0, curve_together_share=0.2, curve_gpus=8, curve_samples=600),
    )
