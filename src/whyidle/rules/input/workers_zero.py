from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class WorkersZero(Rule):
    """The DataLoader loads in the training process: `num_workers=0`.

    ## Why it costs time
    The thread that launches kernels also builds the next batch. Once the kernels that are already
    queued have run, the GPU has nothing to do until the batch is there.

    ## How we know
    The recording holds `_SingleProcessDataLoaderIter`, which PyTorch uses for `num_workers=0` only, and
    no kernel, copy or fill runs while the launching thread is inside `__next__`.

    ## When to ignore it
    The data set is a tensor in memory: then a batch costs microseconds and workers only add copies.
    Worker processes each hold the data set object; on Windows and macOS they start slowly.
    """

    needs = (("idle_loader_share", "loader_in_process"),)
    uses = ("gpu_idle_share", "data_wait_share")

    confidence = Threshold(0.95, "probability", source="the iterator's class is the setting itself; not calibrated yet")
    applies = Threshold(0.9, "probability", source="fails only for data sets that cannot be pickled")
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        wait = m.one("idle_loader_share")
        if not m.one("loader_in_process").value:
            return
        lost = m.number("idle_loader_share")
        idle = m.get("gpu_idle_share", lost)
        yield from self.finding(
            "The DataLoader loads in the training process: num_workers=0.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"enumerate(DataLoader) covers {lost:.0%} of the {idle:.0%} of the time that the GPU is idle",
            locations=wait.locations,
            fixes=(
                Fix(
                    "load in worker processes",
                    "DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True)",
                    effort="argument",
                    applies=self.applies,
                    risk="each worker holds a copy of the data set object",
                    edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual}),),
                ),
            ),
        )

    cases = (
        Fires("the textbook case", idle_loader_share=0.34, loader_in_process=True, gpu_idle_share=0.44),
        Silent("within noise", idle_loader_share=0.01, loader_in_process=True, gpu_idle_share=0.44),
        Silent("workers are on: input.workers_too_few looks further", idle_loader_share=0.34, loader_in_process=False),
    )
