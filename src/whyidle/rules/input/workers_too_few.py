from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input.worker_startup import WorkerStartup


class WorkersTooFew(Rule):
    """The DataLoader has worker processes, and the GPU still waits for them.

    ## Why it costs time
    `num_workers` processes prepare batches in parallel, `prefetch_factor` (default 2) ahead per
    worker, and hand them over in order. If together they make batches more slowly than the GPU uses
    them, the queue is empty and every step waits. One slow batch also holds up those behind it.

    ## How we know
    The recording holds `_MultiProcessingDataLoaderIter`, and no kernel, copy or fill runs while the
    launching thread is inside its `__next__`. A wait that falls mostly into the first batch, or into the
    first of each epoch, is `input.worker_startup` and not counted here.

    A trace of the training process does not show what the workers do, so three causes look the same:
    too few workers (each near 100% of a core, other cores free), transforms that are too slow
    (`input.cpu_transform`: all cores busy) and slow reads (`input.storage`: iowait, little CPU).
    CPU time and iowait of each worker process tell them apart.

    ## When to ignore it
    Workers already occupy all the cores of the machine: then more of them make it worse, and the
    transforms have to become cheaper. Each worker costs memory for its copy of the data set and for
    `prefetch_factor` batches.
    """

    needs = (("idle_loader_workers_share",),)
    uses = (
        "gpu_idle_share", "loader_first_wait_share", "loader_start_waits", "loader_start_wait_share", "steps",
        "late_data_share",
    )  # fmt: skip
    explains = ("data_wait",)

    confidence = Threshold(
        0.6,
        "probability",
        source="right in 106 of 170 simulated jobs, bench/README.md; three causes look the same",
    )
    one_rank = Threshold(0.02, "of window", source="low severity: from there on dist.input_straggler speaks")
    one_rank_confidence = Threshold(
        0.4, "probability", source="where one rank waits for data and others do not, it is that rank's host or data"
    )
    applies = Threshold(0.5, "probability", source="judgement: one of three causes, and cores have to be free")
    ahead_applies = Threshold(0.3, "probability", source="judgement: helps where batch times vary by half their mean")
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")
    ahead = Threshold(0.4, "of the wait", source="simulated: 0.233 to 0.088 of the step for 2 to 4 batches ahead")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        wait = m.one("idle_loader_workers_share")
        lost = m.number(wait.name) - WorkerStartup.startup_share(m)
        yield from self.finding(
            f"The DataLoader's workers deliver batches too slowly, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=(
                self.one_rank_confidence if m.get("late_data_share", 0.0) >= self.one_rank else self.confidence
            ),
            seen=(
                f"the launching thread waits in DataLoader.__next__ for {lost:.0%} of the time though workers are on; "
                "too few of them, slow transforms or slow storage: CPU and iowait of each worker process would tell, "
                "`whyidle run` records them"
            ),
            locations=wait.locations,
            fixes=self._fixes(),
            candidates=("input.cpu_transform", "input.storage"),
        )

    def _fixes(self) -> tuple[Fix, ...]:
        return (
            Fix(
                "use more workers, up to the CPU cores per GPU",
                "DataLoader(..., num_workers=2 * num_workers, persistent_workers=True)",
                effort="argument",
                applies=self.applies,
                risk="no gain where the cores or the storage are the limit; memory grows with each worker",
                edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual}),),
            ),
            Fix(
                "prepare more batches ahead, where batches take unequal time",
                "DataLoader(..., prefetch_factor=4)",
                effort="argument",
                applies=self.ahead_applies,
                risk="host memory for twice as many batches",
                edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.ahead}),),
            ),
        )

    cases = (
        Fires("workers are on and late", idle_loader_workers_share=0.25, gpu_idle_share=0.4),
        Fires(
            "a single step says nothing about start-up",
            idle_loader_workers_share=0.25,
            loader_first_wait_share=1.0,
            steps=1,
        ),
        Silent("keeps up: 0.9% measured with 4 workers", idle_loader_workers_share=0.009),
        Silent(
            "only the first batch: input.worker_startup",
            idle_loader_workers_share=0.25,
            loader_first_wait_share=0.96,
            steps=20,
        ),
    )
