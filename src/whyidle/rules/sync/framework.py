from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.sync import sites
from whyidle.rules.sync.often import often


class Framework(Rule):
    """The program waits for the GPU outside any operator: `torch.cuda.synchronize()`, or a hook of a framework.

    ## Why it costs time
    The call returns when the GPU has finished everything. From then on the CPU starts again with an empty
    queue, and the GPU has to wait for each launch until the CPU is ahead once more.

    ## How we know
    A synchronizing CUDA or HIP call that no PyTorch operator surrounds, in which the CPU stands while the
    GPU works, *and* idle gaps behind it that a CPU running ahead by that time would have filled.

    `whyidle run` adds the lines of the job's code that wait in this way, and how often per step.

    ## When to ignore it
    The synchronization was put there to record this trace, or to time something: it is gone in production.
    The profiler itself synchronizes when it stops, once, at the end.
    """

    needs = (("sync_framework_lost_share",),)
    uses = ("sync_framework_per_step", sites.SITES)
    explains = (
        "sync_return", "python", "dispatch", "autograd_host", "optimizer_host", "launch_latency", "unknown",
    )  # fmt: skip

    confidence = Threshold(
        0.8, "probability", source="judgement, not calibrated yet: gaps behind the call are counted, not the call"
    )
    applies = Threshold(0.7, "probability", source="judgement: most such calls are left over from timing")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("sync_framework_lost_share")
        count = often(m, "sync_framework_per_step", "such synchronizations")
        yield from self.finding(
            f"Waiting for the GPU outside any operator lets it run dry, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"{count}, and {lost:.0%} of the time the GPU is idle behind them for want of queued work"
            + sites.named(m, "framework"),
            locations=sites.places(m, "framework", m.one("sync_framework_lost_share").locations),
            fixes=(
                Fix(
                    "take the synchronization out of the step; to time it, use events",
                    "# delete torch.cuda.synchronize() from the loop\n"
                    "start.record(); step(); end.record()  # torch.cuda.Event(enable_timing=True)\n"
                    "if i % 100 == 0:\n"
                    "    end.synchronize(); print(start.elapsed_time(end))",
                    effort="code",
                    applies=self.applies,
                    risk="host timers around the step then measure launching, not the GPU",
                    edits=(Edit("remove_sync", {"kind": "framework"}),),
                ),
            ),
            candidates=("measure.async_timing",),
        )

    cases = (
        Fires("synchronize() for a timer in each step", sync_framework_lost_share=0.09, sync_framework_per_step=1),
        Silent("the GPU is busy for long after it", sync_framework_lost_share=0.004, sync_framework_per_step=1),
    )
