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
    are far too slow (`dist.net_socket`), all-gathers and reduce-scatters (`dist.fsdp_exposed_comm`).

    Gradients that are launched only when their backward pass is over cannot overlap with it: that is the cause, and at
    most so much can be saved as the backward pass runs with no collective beside it. If they are launched in time and
    still run alone, the backward pass is too short to hide them: to send less helps, or a faster network.

    One rank's recording cannot tell a slow transfer from a late peer. Give the recordings of all ranks, and the waiting
    is told.

    ## When to ignore it
    Tensor and expert parallel layers need their collective's result at once: only a faster network or a smaller group
    makes it shorter. At the end of backward the last bucket is always exposed.
    """

    needs = (("collective_exposed_share",),)
    uses = (*READ[1:], "collective_share", "collective_kind", "grad_sync_late_share", "grad_sync_late_part",
            "backward_alone_share")
    explains = ("peer_wait", "stream_wait")

    mostly = Threshold(
        0.5, "of gradient exchange", source="judgement: in buckets of 25 MiB only the last is launched after backward"
    )
    sure = Threshold(
        0.8,
        "probability",
        source="all ranks, so waiting is known, and launched after backward: right in 13 of 13 simulated jobs, "
        "bench/README.md; recordings are messier",
    )
    in_time = Threshold(
        0.3,
        "probability",
        source="all ranks, and launched in time: in 23 of 23 simulated jobs, bench/README.md, another cause made them long",
    )
    confidence = Threshold(0.4, "probability", source="no overlap, a late peer and a slow link look the same")
    applies = Threshold(0.6, "probability", source="judgement: DDP overlaps unless buckets are too large or hooks are off")
    model_applies = Threshold(0.3, "probability", source="judgement: the model needs the result at once")
    half_applies = Threshold(0.4, "probability", source="judgement: 16 bits are precise enough for most gradients")
    beside = Threshold(
        1.05, "times", source="assumed: kernels beside a collective share multiprocessors and memory with it, 1.03 to 1.10"
    )
    half = Threshold(0.5, "of the bytes", source="arithmetic: 16 bits instead of 32")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        exposed = m.number("collective_exposed_share")
        waits = m.get("collective_wait_share", 0.0)
        lost, kind = left(m) * (1 - of_shards(m)), self._kind(m)
        late = m.get("grad_sync_late_share", 0.0)
        after = kind == "gradients" and late > 0 and m.get("grad_sync_late_part", 0.0) >= self.mostly
        if after and late < exposed:
            lost *= late / exposed
        if after:
            lost = min(lost, m.get("backward_alone_share", lost))
        together = bool(m.each("collective_wait_share"))
        in_time = kind == "gradients" and not after and "grad_sync_late_part" in m
        sure = self.sure if after else self.in_time if in_time else self.confidence
        yield from self.finding(
            f"Collectives run with no computation beside them for {lost:.0%} of the time.",
            lost_share=lost,
            confidence=sure if together else self.confidence,
            seen=(
                f"collectives {m.get('collective_share', exposed):.0%} of the time, {exposed:.0%} with no other kernel "
                "beside them; " + (f"of that {waits:.0%} wait for a peer" if "collective_wait_share" in m else
                "how much of that waits for a peer is not known")
                + (f"; gradients launched after their backward pass: {late:.0%}" if after else "")
            ),
            locations=m.one("grad_sync_late_share" if after else "collective_exposed_share").locations,
            fixes=(self._fix(kind, self._which(m), launched_late=not in_time),),
            candidates=("dist.straggler", "dist.net_socket"),
        )

    def _which(self, m: Measurements) -> str:
        """Return which collectives the fix is about: gradients, where most are known to be that."""
        return "gradients" if "collective_kind" in m and self._kind(m) == "gradients" else "collective"

    def _kind(self, m: Measurements) -> str:
        return str(m.one("collective_kind").value) if "collective_kind" in m else "gradients"

    def _fix(self, kind: str, which: str, *, launched_late: bool) -> Fix:
        overlap = (Edit("overlap_collectives", {"class": which}, {"slowdown": self.beside, "prior": 1.0}),)
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
        if not launched_late:
            return Fix(
                "send gradients in 16 bits: the backward pass is too short to hide them",
                "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n"
                "# or exchange them less often: more micro-steps per update, with model.no_sync() in all but the last",
                effort="code",
                applies=self.half_applies,
                risk="gradients are rounded before they are added: watch the loss",
                edits=(Edit("scale_device", {"class": which}, {"factor": self.half, "prior": 1.0}),),
            )
        return Fix(
            "let gradients travel while backward computes",
            "DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True, static_graph=True)\n"
            "# not one all-reduce by hand after backward(); with torch.compile leave torch._dynamo.config.optimize_ddp on",
            effort="argument",
            applies=self.applies,
            risk="static_graph needs the same parameters in every step",
            edits=overlap,
        )

    cases = (
        Fires("all-reduce after backward", collective_exposed_share=0.4, collective_share=0.45),
        Fires(
            "launched when the backward pass is over",
            collective_exposed_share=0.2,
            collective_share=0.2,
            collective_wait_share=0.0,
            collective_kind="gradients",
            grad_sync_late_share=0.2,
            grad_sync_late_part=1.0,
            backward_alone_share=0.5,
        ),
        Fires(
            "launched in time, but the backward pass is too short to hide them",
            collective_exposed_share=0.2,
            collective_share=0.6,
            collective_kind="gradients",
            grad_sync_late_share=0.01,
            grad_sync_late_part=0.08,
            backward_alone_share=0.03,
        ),
        Silent("hidden behind backward", collective_exposed_share=0.01, collective_share=0.3),
        Silent(
            "exchanged again in every micro-step: dist.accumulation_sync",
            collective_exposed_share=0.3,
            grad_syncs_per_update=8.0,
            grad_sync_again_share=0.285,
        ),
        Silent(
            "launched late, but next to no backward pass to hide them behind",
            collective_exposed_share=0.2,
            collective_kind="gradients",
            grad_sync_late_share=0.2,
            grad_sync_late_part=1.0,
            backward_alone_share=0.01,
        ),
        Silent(
            "all-gathers: dist.fsdp_exposed_comm", collective_exposed_share=0.4, shards_exposed_share=0.4
        ),
        Silent("all of it waits for a late rank", collective_exposed_share=0.4, collective_wait_share=0.4),
    )
