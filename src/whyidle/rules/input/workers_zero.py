from __future__ import annotations

import math
from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import loader_model


class WorkersZero(Rule):
    """The DataLoader loads in the training process: `num_workers=0`, which is PyTorch's default.

    ## Why it costs time
    The thread that launches kernels also reads, decodes and collates the next batch. Once the kernels
    that are already queued have run, the GPU has nothing to do until the batch is there.

    ## How we know
    The recording holds `_SingleProcessDataLoaderIter`, which PyTorch uses for `num_workers=0` only, and
    no kernel, copy or fill runs while the launching thread is inside `__next__`. A recording without a
    GPU is judged by the time inside `__next__`.

    A job that was watched by `whyidle run` is judged by that, since it covers the whole run: by the time in
    `__next__` of a loader without workers, as far as the GPU waited for it.

    The number of workers that we propose is 1.15 x (1 + spread) x loading time / rest of the step.
    From a recording alone it is at least the 4 that a measured pair used; do not go above the CPU cores
    per GPU. Of a watched job the CPUs that it may use are known; then the loss is what so many workers
    save, which on few CPUs is less than the wait.

    ## When to ignore it
    The data set is a tensor in memory: then a batch costs microseconds and workers only add copies.
    A data set that holds CUDA tensors cannot be loaded in forked workers. Where workers are spawned
    (Windows, macOS) or start from a fork server (Linux from Python 3.14), the data set has to be
    picklable and the script needs `if __name__ == "__main__":`.
    """

    needs = (("idle_loader_zero_share",), ("lost_data_zero_share",))
    uses = ("gpu_idle_share", "data_wait_share", *loader_model.READ)
    explains = ("data_wait",)

    confidence = Threshold(0.95, "probability", source="the iterator's class is the setting itself; not calibrated yet")
    applies = Threshold(0.9, "probability", source="fails only for data sets that cannot be pickled")
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")
    spare = loader_model.SPARE
    spread = loader_model.SPREAD
    fewest = Threshold(4, "workers", source="kineto resnet50 sample pair: num_workers=0 and 4")
    most = loader_model.MOST

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        watched = "lost_data_zero_share" in m
        wait = m.one("lost_data_zero_share" if watched else "idle_loader_zero_share")
        lost = waited = m.number(wait.name)
        if watched:
            plan = loader_model.plan(m, lost)
            seen = (
                f"the training process makes batches itself, and {waits.who(m)} waits for them "
                f"{lost:.0%} of the watched time"
            )
            if plan and plan.cpus_are_the_limit:
                room = "1 worker, which saves" if plan.workers == 1 else f"{plan.workers} workers, which save"
                seen += f"; there is room for {room} {plan.saved:.0%}"
            workers, lost = (plan.workers, plan.saved) if plan else (int(self.fewest), lost)
        else:
            idle, loading = m.get("gpu_idle_share", lost), m.get("data_wait_share", lost)
            seen = f"enumerate(DataLoader) covers {lost * 100:.0f} of the {idle * 100:.0f} points of idle time"
            workers = self._workers(loading, lost)
        part = f", as workers can take that much of a wait of {waited:.0%}" if f"{waited:.0%}" != f"{lost:.0%}" else ""
        yield from self.finding(
            f"The DataLoader loads in the training process (num_workers=0), which costs {lost:.0%} of the time{part}.",
            lost_share=lost,
            confidence=self.confidence,
            seen=seen,
            locations=wait.locations,
            fixes=(self._fix(workers, waits.on_gpu(m)),),
        )

    def _fix(self, workers: int, on_gpu: bool) -> Fix:
        pinned = ", pin_memory=True" if on_gpu else ""
        return Fix(
            "load in worker processes",
            f"DataLoader(..., num_workers={workers}{pinned}, persistent_workers=True)",
            effort="argument",
            applies=self.applies,
            risk="each worker holds a copy of the data set object; more workers than CPU cores per GPU only "
            "slow each other down",
            edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual}),),
        )

    def _workers(self, loading: float, lost: float) -> int:
        rest = 1 - lost
        if rest <= 0:
            return int(self.most)
        wanted = math.ceil(self.spare * (1 + self.spread) * loading / rest)
        return int(min(max(wanted, self.fewest), self.most))

    cases = (
        Fires("the textbook case", idle_loader_zero_share=0.34, gpu_idle_share=0.44),
        Fires("nothing but loading", idle_loader_zero_share=1.0, data_wait_share=1.0),
        Fires(
            "watched: a batch takes as long as the rest of the step",
            lost_data_zero_share=0.5,
            batch_seconds=0.05,
            batch_spread=0.2,
            watched_s=100.0,
            watched_steps=1000,
            cpus_allowed=8,
        ),
        Fires("watched, and how long a batch takes is not known", lost_data_zero_share=0.5),
        Silent(
            "watched: one CPU, which making batches and training share already",
            lost_data_zero_share=0.5,
            batch_seconds=0.05,
            batch_cpu_share=1.0,
            watched_s=100.0,
            watched_steps=1000,
            cpus_allowed=1,
            on_gpu=False,
        ),
        Silent("watched: a few steps had to wait, in the whole run next to none", lost_data_zero_share=0.004),
        Silent("within noise", idle_loader_zero_share=0.01, gpu_idle_share=0.44),
        Silent("loads while the GPU works", idle_loader_zero_share=0.0, data_wait_share=0.3),
    )
