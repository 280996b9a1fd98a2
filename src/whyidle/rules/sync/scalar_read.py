from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class ScalarRead(Rule):
    """The loop reads single values back from the GPU, and the GPU runs dry after each.

    ## Why it costs time
    `loss.item()`, `float(loss)`, `print(loss)`, `if loss > 1:` and `tensor.cpu()` wait until the GPU
    has finished everything queued before. From then on the CPU starts again with an empty queue, and
    the GPU has to wait for each launch until the CPU is ahead once more.

    ## How we know
    `aten::_local_scalar_dense` with a blocking copy or `cudaStreamSynchronize`, *and* idle gaps after
    it that a CPU running ahead would have filled. Only the gaps count. Without them the read is
    merely where the CPU waits for a busy GPU: removing it moves the wait and gains nothing.

    ## When to ignore it
    The value decides what happens next (early stopping, line search). One read every hundred steps
    costs nothing.
    """

    needs = (("sync_scalar_lost_share", "sync_scalar_per_step"),)

    confidence = Threshold(
        0.85, "probability", source="judgement, not calibrated yet: gaps after the read are counted, not the read"
    )
    applies = Threshold(0.8, "probability", source="judgement: most reads are for logging")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("sync_scalar_lost_share")
        reads = m.number("sync_scalar_per_step")
        yield from self.finding(
            f"Reading single values from the GPU lets it run dry, which costs {lost:.0%} of the step.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{reads:.3g} blocking reads of one value per step (.item(), float(t), print(t), if t:), and "
                f"{lost:.0%} of the time the GPU is idle after them for want of queued work"
            ),
            locations=m.one("sync_scalar_lost_share").locations,
            fixes=(
                Fix(
                    "keep values on the GPU and read them rarely",
                    "total += loss.detach()          # instead of total += loss.item()\n"
                    "if step % 100 == 0:\n"
                    "    print(total.item() / 100)\n"
                    "    total.zero_()",
                    effort="code",
                    applies=self.applies,
                    risk="logged values arrive later",
                    edits=(Edit("remove_sync", {"kind": "scalar"}),),
                ),
            ),
        )

    cases = (
        Fires("two reads per step with gaps after them", sync_scalar_lost_share=0.07, sync_scalar_per_step=2),
        Silent("the CPU waits there for a busy GPU: no gap", sync_scalar_lost_share=0.0, sync_scalar_per_step=2),
        Silent(
            "host-bound: the step is late with and without the read (1% measured where 85% were blamed)",
            sync_scalar_lost_share=0.008,
            sync_scalar_per_step=1,
        ),
    )
