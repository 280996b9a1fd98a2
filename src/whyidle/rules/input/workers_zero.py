from __future__ import annotations

import math
from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live, waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_rank, loader_model, taken


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
    per GPU. Of a watched job the CPUs that it may use are known, and what other programs leave of them; then the
    loss is what so many workers save, which on few CPUs is less than the wait. Receiving a batch from a
    worker takes the training thread a while, too. Where a batch is made about as fast, we do not advise
    workers, but to make a batch at once rather than sample by sample.

    Of a running job `whyidle watch --pid` tells it by stacks: those in which the main thread is in the loader's fetch.

    ## When to ignore it
    A data set that holds CUDA tensors cannot be loaded in forked workers. Where workers are spawned
    (Windows, macOS) or start from a fork server (Linux from Python 3.14), the data set has to be
    picklable and the script needs `if __name__ == "__main__":`.
    """

    needs = (("idle_loader_zero_share",), ("lost_data_zero_share",), (*live.NEEDS, "live_loader_fetch_share"))
    uses = ("gpu_idle_share", "data_wait_share", *late_rank.READ, *loader_model.READ, *live.READ)
    explains = ("data_wait",)

    confidence = Threshold(0.95, "probability", source="the iterator's class is the setting itself; not calibrated yet")
    applies = Threshold(0.9, "probability", source="fails only for data sets that cannot be pickled")
    crowded_confidence = Threshold(
        0.5, "probability", source="54% promised and 21 to 33% saved where other programs used both of two CPUs"
    )
    crowded_applies = Threshold(0.6, "probability", source="judgement: workers get less of a CPU than they could use")
    small_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: whether samples are taken one by one was not seen"
    )
    small_applies = Threshold(0.5, "probability", source="judgement: data that can be indexed by a list of numbers")
    small_residual = Threshold(0.3, "of the wait", source="judgement: gathering the batch remains")
    handover = loader_model.HANDOVER
    small = loader_model.SMALL
    much = taken.MUCH
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")
    contention = loader_model.CONTENTION
    spare = loader_model.SPARE
    spread = loader_model.SPREAD
    fewest = Threshold(4, "workers", source="kineto resnet50 sample pair: num_workers=0 and 4")
    most = loader_model.MOST

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, lambda batches: (self._fix(batches, int(self.fewest), self.applies),))
            return
        if "lost_data_zero_share" not in m:
            yield from self._recorded(m)
        elif loader_model.small(m):
            yield from self._small(m)
        else:
            yield from self._watched(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        wait = late_rank.own(m, "lost_data_zero_share")
        plan = loader_model.plan(m, wait, handover=self.handover)
        crowded = taken.said(m)
        seen = (f"{crowded}; " if crowded else "") + (
            f"the training process makes batches itself, and {waits.who(m)} waits for them "
            f"{m.number('lost_data_zero_share'):.0%} of the watched time{late_rank.said(m)}"
        )
        if plan and (plan.cpus_are_the_limit or crowded):
            room = "1 worker, which saves" if plan.workers == 1 else f"{plan.workers} workers, which save"
            about = "about " if crowded else ""
            seen += f"; there is room for {room} {about}{plan.saved:.0%}"
        workers, lost = (plan.workers, plan.saved) if plan else (taken.at_most(m, int(self.fewest)), wait)
        fix = self._fix(m, workers, self.crowded_applies if crowded else self.applies)
        part = f", as workers can take that much of a wait of {wait:.0%}" if f"{wait:.0%}" != f"{lost:.0%}" else ""
        yield from self.finding(
            f"The DataLoader loads in the training process (num_workers=0), which costs {lost:.0%} of the time{part}.",
            lost_share=lost,
            confidence=self.crowded_confidence if crowded else self.confidence,
            seen=seen,
            locations=m.one("lost_data_zero_share").locations,
            fixes=(fix, taken.run_elsewhere(m)) if crowded else (fix,),
        )

    def _small(self, m: Measurements) -> Iterator[Finding]:
        lost = late_rank.own(m, "lost_data_zero_share")
        yield from self.finding(
            f"The training process makes small batches itself, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.small_confidence,
            seen=(
                f"a batch takes {m.number('batch_seconds') * 1e3:.2g} ms to make; workers would not help, as receiving "
                f"one from them takes about {self.handover * 1e3:.0f} ms"
            ),
            locations=m.one("lost_data_zero_share").locations,
            fixes=(self._at_once(),),
        )

    def _at_once(self) -> Fix:
        return Fix(
            "take a batch at once, not sample by sample, or keep data that fits on the device",
            "batches = BatchSampler(RandomSampler(dataset), batch_size, drop_last=False)\n"
            "DataLoader(dataset, sampler=batches, batch_size=None)  # dataset[list of numbers]: tensors in memory",
            effort="code",
            applies=self.small_applies,
            risk="the data set has to take a list of numbers, as TensorDataset does",
            edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.small_residual, "prior": 1.0}),),
        )

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        wait = m.one("idle_loader_zero_share")
        lost = m.number(wait.name)
        idle, loading = m.get("gpu_idle_share", lost), m.get("data_wait_share", lost)
        yield from self.finding(
            f"The DataLoader loads in the training process (num_workers=0), which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"enumerate(DataLoader) covers {lost * 100:.0f} of the {idle * 100:.0f} points of idle time",
            locations=wait.locations,
            fixes=(self._fix(m, self._workers(loading, lost), self.applies),),
        )

    def _fix(self, m: Measurements, workers: int, applies: float) -> Fix:
        pinned = ", pin_memory=True" if waits.on_gpu(m) else ""
        return Fix(
            "load in worker processes",
            f"DataLoader(..., num_workers={workers}{pinned}, persistent_workers=True)",
            effort="argument",
            applies=applies,
            risk="each worker holds a copy of the data set object; more workers than CPU cores per GPU only "
            "slow each other down",
            edits=(
                Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual, "prior": 1.0, "workers": workers}),
                *loader_model.contention(m, workers),
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
        Fires(
            "watched: a batch takes as long as the rest of the step",
            lost_data_zero_share=0.5,
            batch_seconds=0.05,
            batch_spread=0.2,
            watched_s=100.0,
            watched_steps=1000,
            cpus_allowed=8,
        ),
        Fires(
            "watched: a batch of tensors in memory, which no worker hands over as fast",
            lost_data_zero_share=0.06,
            batch_seconds=0.0006,
            watched_s=10.0,
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
        Silent(
            "watched: what a worker saves goes into receiving its batches",
            lost_data_zero_share=0.06,
            batch_seconds=0.0041,
            watched_s=100.0,
            watched_steps=1000,
            cpus_allowed=2,
            loader_batches_per_step=4.0,
        ),
        Silent("watched: a few steps had to wait, in the whole run next to none", lost_data_zero_share=0.004),
        Silent("within noise", idle_loader_zero_share=0.01, gpu_idle_share=0.44),
        Silent("loads while the GPU works", idle_loader_zero_share=0.0, data_wait_share=0.3),
    )
