from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_workers
from whyidle.rules.input.late_workers import AFFINITY, WAIT


class CpuAffinity(Rule):
    """The DataLoader's workers may run on a few CPUs only, though the machine has more.

    ## Why it costs time
    Affinity is inherited. A library that pins the training process when it is imported, a launcher that binds a rank to
    one core, or a batch system that gives a task one core unless asked for more, pins all workers with it: sixteen
    workers then share one core.

    ## How we know
    There are more workers than CPUs that a worker may run on, and that mask is smaller than the job's, or than that
    of the shell which started it, or it is a single core of a larger machine. And workers wait for a CPU, so
    that it is not storage that makes them late. Workers that compute get faster by as much as they get more CPUs,
    which bounds what is lost; so does the wait.

    `whyidle watch --pid` tells it of a running job by the shares of the workers' whole time.

    ## When to ignore it
    The other CPUs belong to others: a share of the machine that a batch system gave on request.
    """

    needs = ((WAIT, "worker_cpus_allowed", "num_workers"), (*live.NEEDS, "worker_cpus_allowed"))
    uses = (*late_workers.READ, *live.READ)
    explains = ("data_wait",)

    pinned = late_workers.PINNED
    delayed = late_workers.DELAYED
    shared = late_workers.SHARED
    explains_enough = late_workers.EXPLAINS
    confidence = Threshold(
        0.85, "probability", source="judgement, not calibrated yet: the mask was read from each worker"
    )
    given_confidence = Threshold(
        0.6, "probability", source="judgement, not calibrated yet: whoever started the job may have meant it"
    )
    applies = Threshold(0.8, "probability", source="judgement: resetting it gave tenfold in a public case")
    residual = Threshold(0.1, "of the wait", source="judgement: some remains where workers are as many as CPUs")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, self._asked)
            return
        lost = late_workers.claimed(m, AFFINITY)
        has, workers, could = m.number("worker_cpus_allowed"), m.number("num_workers"), late_workers.wider(m)
        lost_on_the_way = m.get("cpus_allowed", 0.0) > has or (
            "affinity_narrowed" in m and bool(m.one("affinity_narrowed").value)
        )
        delay = m.get("batch_run_delay_share", 0.0)
        reset, ask = self._fixes(max(int(min(workers + 1, could)), 1))
        yield from self.finding(
            f"{workers:.0f} workers of the DataLoader share {has:.0f} of {could:.0f} CPUs, "
            f"which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if lost_on_the_way else self.given_confidence,
            seen=(
                f"a worker may run on {has:.0f} of {could:.0f} CPUs; workers wait for a CPU {delay:.0%} of the time "
                "that a batch takes"
            ),
            locations=m.one("worker_cpus_allowed").locations,
            fixes=(reset, ask) if lost_on_the_way else (ask,),
        )

    def _asked(self, batches: Measurements) -> tuple[Fix, ...]:
        workers, could = batches.number("num_workers"), late_workers.wider(batches)
        return self._fixes(max(int(min(workers + 1, could)), 1))

    def _fixes(self, cpus: int) -> tuple[Fix, Fix]:
        edits = (Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual, "prior": 1.0}),)
        return (
            Fix(
                "give workers all CPUs again",
                "def spread(worker):\n"
                "    os.sched_setaffinity(0, range(os.cpu_count()))\n\n"
                "DataLoader(..., worker_init_fn=spread)",
                effort="argument",
                applies=self.applies,
                risk="with several ranks per machine, or CPUs that belong to others: give each rank its part",
                edits=edits,
            ),
            Fix(
                "ask for more CPUs where the job is started",
                f"srun --cpus-per-task={cpus} --cpu-bind=none python train.py   # unset KMP_AFFINITY GOMP_CPU_AFFINITY",
                effort="setting",
                applies=self.applies,
                risk="the batch system may let the job wait longer",
                edits=edits,
            ),
        )

    cases = (
        Fires(
            "an imported library pinned the process to one core",
            lost_data_workers_share=0.8,
            worker_cpus_allowed=1,
            num_workers=16,
            cpus_allowed=1,
            cpus_online=64,
            affinity_narrowed=True,
            batch_run_delay_share=0.9,
        ),
        Fires(
            "the batch system gave the task one core",
            lost_data_workers_share=0.8,
            worker_cpus_allowed=1,
            num_workers=8,
            cpus_allowed=1,
            cpus_online=64,
            batch_run_delay_share=0.85,
        ),
        Fires(
            "workers are pinned, the training process is not",
            lost_data_workers_share=0.5,
            worker_cpus_allowed=2,
            num_workers=8,
            cpus_allowed=32,
        ),
        Silent(
            "a share of eight CPUs, all in use: input.cpu_transform",
            lost_data_workers_share=0.5,
            worker_cpus_allowed=8,
            num_workers=12,
            cpus_allowed=8,
            cpus_online=64,
            batch_cpu_share=0.6,
            batch_run_delay_share=0.35,
            job_cpu_share=0.98,
        ),
        Silent(
            "a core for each worker",
            lost_data_workers_share=0.5,
            worker_cpus_allowed=8,
            num_workers=8,
            cpus_allowed=32,
            batch_run_delay_share=0.0,
        ),
        Silent(
            "pinned, but blocked by storage: input.storage",
            lost_data_workers_share=0.5,
            worker_cpus_allowed=1,
            num_workers=8,
            cpus_allowed=32,
            batch_run_delay_share=0.02,
            batch_blocked_share=0.95,
        ),
        Silent(
            "pinned, and quick enough",
            lost_data_workers_share=0.0,
            worker_cpus_allowed=1,
            num_workers=8,
            cpus_allowed=32,
        ),
    )
