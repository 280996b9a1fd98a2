from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.dist.exposed import READ, left, of_shards


class BucketOverlap(Rule):
    """Collectives run with no computation beside them.

    ## Why it costs time
    An all-reduce or all-gather that runs while kernels compute costs next to nothing. One that runs alone adds its
    whole length to the step, though the GPU counts as busy.

    ## How we know
    NCCL or RCCL kernels run while no other kernel does. What other rules speak of is taken off: waiting for a
    late rank (`dist.straggler`), exchanges of gradients that are not needed (`dist.accumulation_sync`), links that
    are far too slow (`dist.net_socket`), all-gathers and reduce-scatters (`dist.fsdp_exposed_comm`). One rank's
    recording cannot tell the rest apart: no overlap, a slow network, or a late peer. Give the recordings of all
    ranks, and the waiting is told.

    ## When to ignore it
    Tensor and expert parallel layers need their collective's result at once: only a faster network or a smaller group
    makes it shorter. At the end of backward the last bucket is always exposed.
    """

    needs = (("collective_exposed_share",),)
    uses = (*READ[1:], "collective_share", "collective_kind")
    explains = ("peer_wait", "stream_wait")

    confidence = Threshold(0.4, "probability", source="no overlap, a late peer and a slow link look the same")
    applies = Threshold(0.4, "probability", source="judgement: DDP and FSDP overlap by default")
    model_applies = Threshold(0.3, "probability", source="judgement: the model needs the result at once")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        exposed = m.number("collective_exposed_share")
        waits = m.get("collective_wait_share", 0.0)
        lost = left(m) * (1 - of_shards(m))
        yield from self.finding(
            f"Collectives run with no computation beside them for {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"collectives {m.get('collective_share', exposed):.0%} of the time, {exposed:.0%} with no other kernel "
                "beside them; " + (f"of that {waits:.0%} wait for a peer" if "collective_wait_share" in m else
                "how much of that waits for a peer is not known")
            ),
            locations=m.one("collective_exposed_share").locations,
            fixes=(self._fix(str(m.one("collective_kind").value) if "collective_kind" in m else "gradients"),),
            candidates=("dist.straggler", "dist.net_socket"),
        )

    def _fix(self, kind: str) -> Fix:
        overlap = (Edit("overlap_collectives", {"class": "collective"}),)
        if kind != "gradients":
            return Fix(
                "compute something else meanwhile, or send less",
                "# split the batch in two and let one half compute while the other one travels\n"
                "# tensor parallel: keep the group inside a node, or make it smaller; send activations in 16 bits",
                effort="code",
                applies=self.model_applies,
                risk="smaller kernels may compute more slowly; 16 bits round what is sent",
                edits=overlap,
            )
        return Fix(
            "let gradients travel while backward computes",
            "DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)",
            effort="argument",
            applies=self.applies,
            risk="static_graph needs the same parameters in every step",
            edits=overlap,
        )

    cases = (
        Fires("all-reduce after backward", collective_exposed_share=0.4, collective_share=0.45),
        Silent("hidden behind backward", collective_exposed_share=0.01, collective_share=0.3),
        Silent(
            "exchanged again in every micro-step: dist.accumulation_sync",
            collective_exposed_share=0.3,
            grad_syncs_per_update=8.0,
            grad_sync_again_share=0.285,
        ),
        Silent(
            "all-gathers: dist.fsdp_exposed_comm", collective_exposed_share=0.4, shards_exposed_share=0.4
        ),
        Silent("all of it waits for a late rank", collective_exposed_share=0.4, collective_wait_share=0.4),
    )
