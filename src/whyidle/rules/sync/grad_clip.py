from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.sync import sites
from whyidle.rules.sync.often import often


class GradClip(Rule):
    """Between backward and the optimizer step the CPU reads a gradient norm or flag, and the GPU runs dry.

    ## Why it costs time
    The read waits for the whole backward pass. The optimizer's launches can start only after it, so
    the GPU sits idle at the end of every step until they arrive.

    ## How we know
    A blocking read lies between the end of backward and `Optimizer.step`, *and* idle gaps follow that a
    CPU running ahead would have filled. Only the gaps count.

    Three things read there: `clip_grad_norm_(…, error_if_nonfinite=True)`, a norm that is logged with
    `.item()`, and `GradScaler.step`, which asks for each optimizer whether a gradient was infinite.
    `clip_grad_norm_` with its defaults does not wait in current versions of PyTorch.

    `whyidle run` adds the lines of the job's code that wait in this way, and how often per step.

    ## When to ignore it
    You need to stop at the first gradient that is not finite. Debug with the check, train without.
    """

    needs = (("sync_grad_clip_lost_share",),)
    uses = ("sync_grad_clip_per_step", sites.SITES)
    explains = ("sync_return", "python", "dispatch", "autograd_host", "optimizer_host", "launch_latency")

    confidence = Threshold(
        0.8, "probability", source="judgement, not calibrated yet: the place in the step says what reads"
    )
    applies = Threshold(0.8, "probability", source="judgement: each of the three reads can be left out")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("sync_grad_clip_lost_share")
        count = often(m, "sync_grad_clip_per_step", "blocking reads")
        yield from self.finding(
            f"A read between backward and the optimizer step lets the GPU run dry, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{count} after backward and before Optimizer.step, and {lost:.0%} of the "
                "time the GPU is idle after them" + sites.named(m, "grad_clip")
            ),
            locations=sites.places(m, "grad_clip", m.one("sync_grad_clip_lost_share").locations),
            fixes=(
                Fix(
                    "clip without looking at the norm",
                    "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # error_if_nonfinite=False\n"
                    "if step % 100 == 0:\n"
                    "    print(norm.item())\n"
                    "# with GradScaler: optimizer = torch.optim.AdamW(..., fused=True) checks on the GPU; "
                    "bfloat16 needs no scaler",
                    effort="code",
                    applies=self.applies,
                    risk="a gradient that is not finite is noticed later",
                    edits=(Edit("remove_sync", {"kind": "grad_clip"}),),
                ),
            ),
        )

    cases = (
        Fires("error_if_nonfinite=True", sync_grad_clip_lost_share=0.06, sync_grad_clip_per_step=1),
        Silent("clip_grad_norm_ with its defaults", sync_grad_clip_lost_share=0.0, sync_grad_clip_per_step=0),
        Silent("read, but no gap follows", sync_grad_clip_lost_share=0.004, sync_grad_clip_per_step=1),
    )
