from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.sync import sites
from whyidle.rules.sync.often import often


class DataDependent(Rule):
    """The program's way depends on data on the GPU: the CPU waits to read it, and the GPU runs dry after each.

    ## Why it costs time
    `x[mask]`, `nonzero`, `unique`, `masked_select` and `repeat_interleave` with a tensor of counts
    cannot allocate their result before the GPU has counted. The CPU waits for that number, the queue
    empties, and the GPU waits for the launches that follow. `if mask.any():` and `while x > 0:` wait for
    the same reason: the CPU has to know which way to go.

    ## How we know
    Such an operator (`aten::nonzero`, `aten::is_nonzero`, `aten::masked_select`, `aten::_unique2`, …)
    holds a blocking copy or synchronization, *and* idle gaps follow that a CPU running ahead would have
    filled. Only the gaps count; without them the CPU merely waits for a busy GPU.

    `whyidle run` adds the lines of the job's code that wait in this way, and how often per step.

    ## When to ignore it
    The dense form would compute far more: a mask that keeps 1% of a large tensor may be worth a wait.
    """

    needs = (("sync_data_dependent_lost_share",),)
    uses = ("sync_data_dependent_per_step", sites.SITES)
    explains = ("sync_return", "python", "dispatch", "autograd_host", "optimizer_host", "launch_latency")

    confidence = Threshold(
        0.85, "probability", source="judgement, not calibrated yet: gaps after the operator are counted"
    )
    applies = Threshold(0.6, "probability", source="judgement: some results have to be compact")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("sync_data_dependent_lost_share")
        count = often(m, "sync_data_dependent_per_step", "blocking operators")
        yield from self.finding(
            f"Sizes and branches that depend on data let the GPU run dry, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{count} (x[mask], nonzero, unique, if t.any():), "
                f"and {lost:.0%} of the time the GPU is idle after them for want of queued work"
                + sites.named(m, "data_dependent")
            ),
            locations=sites.places(m, "data_dependent", m.one("sync_data_dependent_lost_share").locations),
            fixes=(
                Fix(
                    "keep the shape and mask the values",
                    "loss = torch.where(mask, per_item, 0).sum() / mask.sum().clamp(min=1)  # instead of "
                    "per_item[mask].mean()\n"
                    "x = torch.where(mask, value, x)                                        # instead of "
                    "x[mask] = tensor\n"
                    "y = torch.repeat_interleave(x, counts, output_size=total)              # total known on the CPU",
                    effort="code",
                    applies=self.applies,
                    risk="computes masked items as well; keep non-finite ones out before the operation, for gradients",
                    edits=(Edit("remove_sync", {"kind": "data_dependent"}),),
                ),
            ),
        )

    cases = (
        Fires("fifteen masked losses", sync_data_dependent_lost_share=0.053, sync_data_dependent_per_step=15),
        Silent("no gap follows", sync_data_dependent_lost_share=0.0, sync_data_dependent_per_step=15),
        Silent("within noise", sync_data_dependent_lost_share=0.01, sync_data_dependent_per_step=1),
    )
