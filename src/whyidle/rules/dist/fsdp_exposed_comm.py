from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.dist.exposed import READ, left, of_shards


class FsdpExposedComm(Rule):
    """Parameters are gathered and gradients scattered with no computation beside them.

    ## Why it costs time
    FSDP and ZeRO-3 keep a shard of each parameter per rank, and gather a layer's parameters before they compute it. While
    one layer computes the next can be gathered, so that it costs next to nothing. With the whole model as a single unit
    there is no next layer: everything is gathered first and computed then.

    ## How we know
    All-gathers and reduce-scatters run while no other kernel does. What is known to be waiting for a late rank, and what
    slow links or needless exchanges add, is taken off in proportion: other rules speak of that.

    ## When to ignore it
    Sequence parallel layers gather and scatter activations, whose result they need at once. The first gather and the last
    scatter of a step are always exposed.
    """

    needs = (("shards_exposed_share", "collective_exposed_share"),)
    uses = tuple(name for name in READ if name not in {"shards_exposed_share", "collective_exposed_share"})
    explains = ("peer_wait", "stream_wait")

    confidence = Threshold(0.5, "probability", source="judgement: a slow link and a late rank look the same")
    applies = Threshold(0.5, "probability", source="judgement: units and prefetching can be chosen, memory is the limit")
    keep_applies = Threshold(0.3, "probability", source="judgement: memory to spare is rare where models are sharded")
    beside = Threshold(
        1.05, "times", source="assumed: kernels beside a collective share multiprocessors and memory with it, 1.03 to 1.10"
    )
    keep = Threshold(0.67, "of the bytes", source="arithmetic: two of three transfers stay, the second gather goes")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = left(m) * of_shards(m)
        yield from self.finding(
            f"Parameters are gathered with no computation beside that, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"all-gathers and reduce-scatters run {m.number('shards_exposed_share'):.0%} of the time with no other "
                f"kernel beside them, all collectives {m.number('collective_exposed_share'):.0%}"
            ),
            locations=m.one("shards_exposed_share").locations,
            fixes=(
                Fix(
                    "make each block a unit, so that the next one is gathered while this one computes",
                    "for block in model.blocks:\n    fully_shard(block)\n"
                    "fully_shard(model)  # FSDP1: auto_wrap_policy, forward_prefetch=True, BACKWARD_PRE",
                    effort="code",
                    applies=self.applies,
                    risk="parameters that are gathered early take memory; very small units are slower",
                    edits=(
                        Edit("overlap_collectives", {"class": "shards"}, {"slowdown": self.beside, "prior": 1.0}),
                    ),
                ),
                Fix(
                    "keep what is gathered until the backward pass",
                    "fully_shard(block, reshard_after_forward=False)  # FSDP1: ShardingStrategy.SHARD_GRAD_OP",
                    effort="argument",
                    applies=self.keep_applies,
                    risk="each rank holds all parameters from the forward to the backward pass",
                    edits=(Edit("scale_device", {"class": "shards"}, {"factor": self.keep, "prior": 1.0}),),
                ),
            ),
            candidates=("dist.net_socket", "dist.straggler"),
        )

    cases = (
        Fires("one unit: all is gathered first", shards_exposed_share=0.3, collective_exposed_share=0.32),
        Silent("hidden behind computation", shards_exposed_share=0.015, collective_exposed_share=0.02),
        Silent("all-reduces: dist.bucket_overlap", shards_exposed_share=0.0, collective_exposed_share=0.3),
        Silent(
            "all of it waits for a late rank: dist.straggler",
            shards_exposed_share=0.3,
            collective_exposed_share=0.3,
            collective_wait_share=0.3,
        ),
        Silent(
            "links that are far too slow: dist.net_socket",
            shards_exposed_share=0.3,
            collective_exposed_share=0.3,
            link_exposed_share=0.3,
            link_speed_share=0.03,
        ),
    )
