from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class AccumulationSync(Rule):
    """Ranks exchange gradients after every backward pass, though only every k-th is followed by an update.

    ## Why it costs time
    Gradients of several micro-batches are added up before `optimizer.step()`, and the sum is all that ranks need of
    each other. DistributedDataParallel does not know that and exchanges them after each backward pass: k times as much
    as is needed.

    ## How we know
    Between two `Optimizer.step` there are several backward passes, and in each of them the hooks of the parameters
    launch the same all-reduces or reduce-scatters. What runs with no other kernel beside it in all but the last of
    these passes is counted, less the part of collectives that is known to wait for a late rank.

    ## When to ignore it
    FSDP and ZeRO from stage 2 on keep only a part of the gradients on each rank: to exchange them once, each rank has
    to hold all of them until then, which may not fit into memory.
    """

    needs = (("grad_syncs_per_update", "grad_sync_again_share"),)
    uses = ("grad_sync", "collective_exposed_share", "collective_wait_share")

    several = Threshold(1.5, "per update", source="judgement: between once and twice; passes are whole numbers")
    confidence = Threshold(0.85, "probability", source="passes and updates are recorded: right in 11 of 11 simulated jobs, bench/README.md")
    applies = Threshold(0.85, "probability", source="judgement: a context manager; unused parameters can forbid it")
    sharded_applies = Threshold(0.4, "probability", source="judgement: whole gradients have to fit into memory")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the window that this rule speaks for; 0 where it is silent.

        Which collectives waited for a late rank is not known: it is taken off in proportion.
        """
        if m.get("grad_syncs_per_update", 0.0) < cls.several:
            return 0.0
        exposed, waits = m.get("collective_exposed_share", 0.0), m.get("collective_wait_share", 0.0)
        carries = max(1 - waits / exposed, 0.0) if exposed > 0 else 1.0
        return m.get("grad_sync_again_share", 0.0) * carries

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost, times = self.claimed(m), m.number("grad_syncs_per_update")
        sharded = "grad_sync" in m and m.one("grad_sync").value == "reduce_scatter"
        yield from self.finding(
            f"Ranks exchange gradients {times:.0f} times per update, where once would do, "
            f"which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{times:.1f} backward passes per Optimizer.step, each with the same collectives; "
                f"all but the last of them run alone for {m.number('grad_sync_again_share'):.1%} of the time"
            ),
            locations=m.one("grad_sync_again_share").locations,
            fixes=(self._sharded() if sharded else self._replicated(),),
        )

    def _replicated(self) -> Fix:
        return Fix(
            "exchange gradients in the last micro-step only",
            "last = (step + 1) % k == 0\n"
            "with contextlib.nullcontext() if last else model.no_sync():  # forward and backward inside\n"
            "    (loss_fn(model(x), y) / k).backward()",
            effort="code",
            applies=self.applies,
            risk="parameters without a gradient in the last micro-step are not exchanged unless found (unused parameters)",
            edits=(Edit("remove_device", {"class": "collective", "pass": "all but the last of an update"}),),
        )

    def _sharded(self) -> Fix:
        return Fix(
            "exchange gradients in the last micro-step only, where they fit into memory",
            "model.set_requires_gradient_sync(last)  # FSDP2 (fully_shard); FSDP1: with model.no_sync():",
            effort="code",
            applies=self.sharded_applies,
            risk="each rank holds all gradients between updates: as much memory as the parameters take in their precision",
            edits=(Edit("remove_device", {"class": "collective", "pass": "all but the last of an update"}),),
        )

    cases = (
        Fires(
            "four micro-steps per update",
            grad_syncs_per_update=4.0,
            grad_sync_again_share=0.22,
            collective_exposed_share=0.3,
        ),
        Fires("FSDP", grad_syncs_per_update=4.0, grad_sync_again_share=0.2, grad_sync="reduce_scatter"),
        Silent("one backward pass per update", grad_syncs_per_update=1.0, grad_sync_again_share=0.0),
        Silent("hidden behind backward", grad_syncs_per_update=4.0, grad_sync_again_share=0.005),
        Silent(
            "all of it waits for a late rank: dist.straggler",
            grad_syncs_per_update=4.0,
            grad_sync_again_share=0.2,
            collective_exposed_share=0.3,
            collective_wait_share=0.3,
        ),
    )
