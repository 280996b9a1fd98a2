from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_rank, late_workers, loader_model, taken
from whyidle.rules.input.late_workers import TOO_FEW, WAIT
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

    `whyidle run` measures them. Then this rule speaks where CPUs are free and workers do not mostly wait for
    storage, or where nothing is known of the workers; an epoch of few batches, a quota, a narrow affinity
    and too many threads have rules of their own and are asked first. The number of workers is
    1.15 x (1 + spread) x the time of a batch / the step without the wait, as far as there are CPUs, and
    the loss is what so many save.

    `whyidle watch --pid` tells it of a running job by workers that compute while the main thread sleeps and CPUs are
    free; how many it takes is not known then.

    ## When to ignore it
    Workers already occupy all the cores of the machine: then more of them make it worse, and the
    transforms have to become cheaper. Each worker costs memory for its copy of the data set and for
    `prefetch_factor` batches.
    """

    needs = (("idle_loader_workers_share",), (WAIT,), live.NEEDS)
    uses = (
        "gpu_idle_share", "loader_first_wait_share", "loader_start_waits", "loader_start_wait_share", "steps",
        "late_data_share", "prefetch_factor", *late_workers.READ, *live.READ,
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
    free_confidence = Threshold(
        0.8, "probability", source="judgement, not calibrated yet: workers compute, and CPUs are free"
    )
    locked_confidence = Threshold(
        0.4,
        "probability",
        source="judgement, not calibrated yet: workers wait for a lock, which more of them may want, too",
    )
    crowded_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: what other programs leave for more workers varies"
    )
    taken_much = taken.MUCH
    free_applies = Threshold(0.8, "probability", source="judgement: CPUs are free for them")
    uneven = loader_model.SPREAD
    applies = Threshold(0.5, "probability", source="judgement: one of three causes, and cores have to be free")
    ahead_applies = Threshold(0.3, "probability", source="judgement: helps where batch times vary by half their mean")
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")
    ahead = Threshold(0.4, "of the wait", source="simulated: 0.233 to 0.088 of the step for 2 to 4 batches ahead")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, self._doubled)
            return
        yield from self._watched(m) if WAIT in m else self._recorded(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        lost = late_workers.claimed(m, TOO_FEW)
        others = late_workers.undecided(m, TOO_FEW)
        blocked = m.get("batch_blocked_share", 0.0) >= late_workers.BLOCKED  # and not by storage: that is another's
        sure = self.locked_confidence if blocked else self.confidence if others else self.free_confidence
        crowded = taken.said(m)
        if crowded:
            sure = min(sure, self.crowded_confidence)
        yield from self.finding(
            f"The DataLoader's workers deliver batches too slowly, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self._sure(m, sure),
            seen=f"the training waits {m.number(WAIT):.0%} of the watched time for workers{late_rank.said(m)}, "
            + self._known(m)
            + (f"; {crowded}" if crowded else ""),
            locations=m.one(WAIT).locations,
            fixes=(*self._sized(m), *((taken.run_elsewhere(m),) if crowded else ())),
            candidates=others,
        )

    def _known(self, m: Measurements) -> str:
        """Return what is known of the workers."""
        parts = {"batch_cpu_share": "compute", "batch_run_delay_share": "wait for a CPU"}
        parts |= {"batch_blocked_share": "are blocked"}
        told = [f"{what} {m.number(name):.0%}" for name, what in parts.items() if name in m]
        if not told:
            return "of which nothing else is known"
        busy = f"; the job uses {m.number('job_cpu_share'):.0%} of its CPUs" if "job_cpu_share" in m else ""
        return f"which {', '.join(told)} of the time that a batch takes{busy}"

    def _sized(self, m: Measurements) -> tuple[Fix, ...]:
        """Return the fixes with as many workers as there are room for and need of, the better one first."""
        more, ahead = self._fixes()
        plan = late_workers.more_workers(m, late_rank.own(m, WAIT))
        if plan is None or "num_workers" not in m:
            return more, ahead
        now = m.number("num_workers")
        enough = plan.at_work <= now  # in the mean: what is late are batches that take longer than others
        factor = int(2 * m.get("prefetch_factor", 2))
        change = f"DataLoader(..., prefetch_factor={factor})"
        ahead = replace(ahead, change=change, applies=self.applies if enough else self.ahead_applies)
        ahead = replace(ahead, edits=self._edits(self.ahead, prefetch=factor))
        if plan.workers <= now:
            return (ahead, more) if plan.cpus_are_the_limit and not enough else (ahead,)
        change = f"DataLoader(..., num_workers={plan.workers}, persistent_workers=True)"
        more = replace(more, change=change, applies=self.free_applies if "job_cpu_share" in m else self.applies)
        more = replace(more, edits=self._edits(self.residual, workers=plan.workers))
        if m.get("batch_spread", 0.0) <= self.uneven:
            return (more,)
        return (ahead, more) if enough else (more, ahead)

    def _doubled(self, batches: Measurements) -> tuple[Fix, ...]:
        """Return the fixes where nobody saw how long a batch takes, and so how many workers it needs."""
        more, ahead = self._fixes()
        now = batches.number("num_workers")
        most = max(int(taken.per_rank(batches) or 2 * now) - 1, 1)
        change = f"DataLoader(..., num_workers={int(max(min(2 * now, most), now + 1))}, persistent_workers=True)"
        return replace(more, change=change), ahead

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        wait = m.one("idle_loader_workers_share")
        lost = m.number(wait.name) - WorkerStartup.startup_share(m)
        yield from self.finding(
            f"The DataLoader's workers deliver batches too slowly, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self._sure(m, self.confidence),
            seen=(
                f"the launching thread waits in DataLoader.__next__ for {lost:.0%} of the time though workers are on; "
                "too few of them, slow transforms or slow storage: CPU and iowait of each worker process would tell, "
                "`whyidle run` records them"
            ),
            locations=wait.locations,
            fixes=self._fixes(),
            candidates=("input.cpu_transform", "input.storage"),
        )

    def _sure(self, m: Measurements, otherwise: float) -> float:
        return self.one_rank_confidence if m.get("late_data_share", 0.0) >= self.one_rank else otherwise

    def _edits(self, factor: float, **settings: float) -> tuple[Edit, ...]:
        return (Edit("scale_host", {"cause": "data_wait"}, {"factor": factor, "prior": 1.0, **settings}),)

    def _fixes(self) -> tuple[Fix, ...]:
        return (
            Fix(
                "use more workers, up to the CPU cores per GPU",
                "DataLoader(..., num_workers=2 * num_workers, persistent_workers=True)",
                effort="argument",
                applies=self.applies,
                risk="no gain where the cores or the storage are the limit; memory grows with each worker",
                edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual, "prior": 1.0}),),
            ),
            Fix(
                "prepare more batches ahead, where batches take unequal time",
                "DataLoader(..., prefetch_factor=4)",
                effort="argument",
                applies=self.ahead_applies,
                risk="host memory for twice as many batches",
                edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.ahead, "prior": 1.0}),),
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
        Fires("watched, and nothing is known of the workers", lost_data_workers_share=0.25),
        Fires(
            "watched: two workers compute all the time, six CPUs are free",
            lost_data_workers_share=0.4,
            num_workers=2,
            batch_seconds=0.1,
            batch_spread=0.1,
            batch_cpu_share=0.98,
            batch_run_delay_share=0.01,
            batch_blocked_share=0.01,
            job_cpu_share=0.3,
            cpus_allowed=8,
            watched_s=50.0,
            watched_steps=1000,
        ),
        Silent(
            "watched: all CPUs are busy: input.cpu_transform",
            lost_data_workers_share=0.4,
            num_workers=8,
            batch_cpu_share=0.9,
            job_cpu_share=0.97,
            cpus_allowed=8,
        ),
        Silent("watched: workers are blocked: input.storage", lost_data_workers_share=0.4, batch_blocked_share=0.9),
        Silent("watched: they keep up", lost_data_workers_share=0.01, idle_loader_workers_share=0.3),
        Silent("keeps up: 0.9% measured with 4 workers", idle_loader_workers_share=0.009),
        Silent(
            "only the first batch: input.worker_startup",
            idle_loader_workers_share=0.25,
            loader_first_wait_share=0.96,
            steps=20,
        ),
    )
