from __future__ import annotations

import math
from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class WorkersZero(Rule):
    """The DataLoader loads in the training process: `num_workers=0`, which is PyTorch's default.

    ## Why it costs time
    The thread that launches kernels also reads, decodes and collates the next batch. Once the kernels
    that are already queued have run, the GPU has nothing to do until the batch is there.

    ## How we know
    The recording holds `_SingleProcessDataLoaderIter`, which PyTorch uses for `num_workers=0` only, and
    no kernel, copy or fill runs while the launching thread is inside `__next__`. A recording without a
    GPU is judged by the time inside `__next__`.

    The number of workers that we propose is 1.15 x (1 + spread) x loading time / rest of the step,
    but at least the 4 that a measured pair used. Do not go above the CPU cores per GPU.

    ## When to ignore it
    The data set is a tensor in memory: then a batch costs microseconds and workers only add copies.
    A data set that holds CUDA tensors cannot be loaded in forked workers. Where workers are spawned
    (Windows, macOS) or start from a fork server (Linux from Python 3.14), the data set has to be
    picklable and the script needs `if __name__ == "__main__":`.
    """

    needs = (("idle_loader_zero_share",),)
    uses = ("gpu_idle_share", "data_wait_share")
    explains = ("data_wait",)

    confidence = Threshold(0.95, "probability", source="the iterator's class is the setting itself; not calibrated yet")
    applies = Threshold(0.9, "probability", source="fails only for data sets that cannot be pickled")
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")
    spare = Threshold(1.15, "ratio", source="judgement: 15% more workers than the mean batch needs")
    spread = Threshold(0.5, "ratio", source="sd over mean of batch times, assumed: above it prefetch matters more")
    fewest = Threshold(4, "workers", source="kineto resnet50 sample pair: num_workers=0 and 4")
    most = Threshold(
        16, "workers", source="cores per GPU of common cloud machines are 8 to 24; more needs a look at the CPUs"
    )

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        wait = m.one("idle_loader_zero_share")
        lost = m.number(wait.name)
        idle = m.get("gpu_idle_share", lost)
        loading = m.get("data_wait_share", lost)
        yield from self.finding(
            f"The DataLoader loads in the training process (num_workers=0), which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"enumerate(DataLoader) covers {lost * 100:.0f} of the {idle * 100:.0f} points of idle time",
            locations=wait.locations,
            fixes=(
                Fix(
                    "load in worker processes",
                    f"DataLoader(..., num_workers={self._workers(loading, lost)}, pin_memory=True, "
                    "persistent_workers=True)",
                    effort="argument",
                    applies=self.applies,
                    risk="each worker holds a copy of the data set object; more workers than CPU cores per GPU only "
                    "slow each other down",
                    edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual}),),
                ),
            ),
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
        Silent("within noise", idle_loader_zero_share=0.01, gpu_idle_share=0.44),
        Silent("loads while the GPU works", idle_loader_zero_share=0.0, data_wait_share=0.3),
    )
