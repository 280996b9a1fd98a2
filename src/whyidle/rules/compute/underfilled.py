from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class Underfilled(Rule):
    """The GPU is busy, but its kernels have too few blocks to occupy all multiprocessors.

    ## Why it costs time
    A kernel is cut into blocks, and each multiprocessor takes at least one. With fewer blocks than
    multiprocessors some have nothing to do, and the kernel takes no less time for it. `nvidia-smi`
    shows 100% nevertheless: it counts whether a kernel runs, not how many multiprocessors work.

    ## How we know
    The recording has the number of blocks per multiprocessor of each kernel. A batch twice as large has twice
    the blocks: a kernel that fills half of the multiprocessors or less takes as long for it as before, and one that
    fills more takes longer in proportion. What is saved per item is counted, but for the kernels of the optimizer,
    which do not grow with the batch.

    ## When to ignore it
    If the GPU idles between kernels, that comes first, and a larger batch helps against both. Kernels
    that run beside each other on several streams fill the GPU together. Inference with one request at
    a time cannot have more blocks. Kernels that memory limits may have its whole bandwidth with fewer multiprocessors.
    """

    needs = (("underfilled_share", "gpu_busy_share"),)
    uses = (
        "underfilled_twice_share",
        "idle_dispatch_share",
        "idle_autograd_host_share",
        "idle_launch_latency_share",
        *READ,
    )

    mostly_busy = Threshold(0.8, "of window", source="below it more is to be had from the idle time; judgement")
    launch_bound = Threshold(0.05, "of window", source="medium severity: host.launch_bound speaks for the same cause")
    recoverable = Threshold(
        0.5,
        "of unfilled time",
        source="prior, where it was not computed by kernel: twice the blocks fill at most as much",
    )
    confidence = Threshold(
        0.6,
        "probability",
        source="blocks are recorded: right in 17 of 22 simulated jobs, bench/README.md; "
        "kernels that memory limits gain less",
    )
    twice = Threshold(2, "times the batch", source="arithmetic: what the fix says")
    applies = Threshold(0.4, "probability", source="judgement: memory and the learning recipe limit it")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        unfilled = m.number("underfilled_share")
        launching = sum(m.get(name, 0.0) for name in self.uses if name.startswith("idle_"))
        if m.number("gpu_busy_share") < self.mostly_busy or launching >= self.launch_bound:
            return
        lost = saved(m, m.get("underfilled_twice_share", unfilled * self.recoverable))
        yield from self.finding(
            f"Kernels leave {unfilled:.0%} of the GPU's multiprocessor time without a block: "
            f"twice the work per kernel may win {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"GPU busy {m.number('gpu_busy_share'):.0%}; kernel time x empty multiprocessors: {unfilled:.0%}"
                f"{proviso(m)}"
            ),
            locations=m.one("underfilled_share").locations,
            fixes=(
                Fix(
                    "give each kernel more work: a larger batch",
                    "DataLoader(..., batch_size=2 * batch_size)",
                    effort="setting",
                    applies=self.applies,
                    risk="changes the learning recipe (learning rate, number of updates) and needs memory",
                    edits=(Edit("larger_batch", {}, {"factor": self.twice}),),
                ),
            ),
        )

    cases = (
        Fires("a batch of 2 on a large GPU", underfilled_share=0.5, gpu_busy_share=0.95),
        Silent(
            "the GPU waits for the host half of the time",
            underfilled_share=0.06,
            gpu_busy_share=0.9,
            gpu_limited_share=0.5,
        ),
        Fires("half of the blocks", underfilled_share=0.06, underfilled_twice_share=0.055, gpu_busy_share=0.95),
        Silent(
            "the optimizer's kernels, which do not grow with the batch",
            underfilled_share=0.06,
            underfilled_twice_share=0.001,
            gpu_busy_share=0.95,
        ),
        Silent("large grids", underfilled_share=0.02, gpu_busy_share=0.97),
        Silent("mostly idle: look at the idle time", underfilled_share=0.4, gpu_busy_share=0.4),
        Silent(
            "the same small batch, seen as launches: host.launch_bound",
            underfilled_share=0.3,
            gpu_busy_share=0.82,
            idle_dispatch_share=0.15,
        ),
    )
