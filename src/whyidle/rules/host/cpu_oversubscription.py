from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host import starved
from whyidle.rules.input import late_workers, taken
from whyidle.rules.input.late_workers import THREADS


class CpuOversubscription(Rule):
    """The job's processes have far more compute threads than there are CPUs, and wait for each other.

    ## Why it costs time
    Each process sizes its pool of threads (OpenMP, MKL) for the whole machine. Eight ranks or workers with a pool each
    have eight times as many threads as CPUs. All threads of a pool have to finish before an operation does,
    so one that gets no CPU holds up all others, which spin meanwhile and take CPU time from the rest. More cores do not
    help.

    ## How we know
    The threads that PyTorch may use in all processes of the job are at least twice what one rank with its workers has
    by default, the CPUs are in use, and workers or the training thread are ready to run and wait for a CPU; where
    the workers' own waiting is hidden by the CPU time of their pools, some task of the machine does (PSI). What is
    lost is bounded by that waiting, by the wait for workers, and for the training thread by the idle time of the GPU.

    `whyidle watch --pid` counts the threads of a running job that run or wait for a CPU. Where these are few and the
    main thread still waits for a CPU, other programs have the CPUs, and it says so here, too.

    ## When to ignore it
    Threads sleep most of the time, as in many small environments: then the CPUs are not in use.
    """

    needs = (("compute_threads", "cpus_allowed"), live.NEEDS)
    uses = (*late_workers.READ, *starved.READ, *live.READ)
    explains = ("data_wait", "python", "dispatch", "autograd_host", "optimizer_host")

    crowded = late_workers.CROWDED
    in_use = late_workers.IN_USE
    pressed = late_workers.PRESSED
    delayed = late_workers.DELAYED
    explains_enough = late_workers.EXPLAINS
    confidence = Threshold(0.75, "probability", source="judgement, not calibrated yet: threads and waits were counted")
    pressed_confidence = Threshold(
        0.6, "probability", source="judgement, not calibrated yet: who waits for a CPU was not seen, only that some do"
    )
    applies = Threshold(0.8, "probability", source="judgement: one variable; 1.3 and 2 times in public cases")
    threads = Threshold(8, "threads", source="118 to 18 cores busy and 1.29 times as fast in a public case")
    residual = Threshold(0.2, "of the wait", source="judgement: the work itself remains")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, self._seen_live)
            return
        if not late_workers.crowded(m):
            return
        loading = late_workers.claimed(m, THREADS)
        training = 0.0 if late_workers.throttled(m) else starved.training_thread(m)  # the quota's, then
        lost = loading + training
        delayed = m.get("batch_run_delay_share", 0.0) >= self.delayed or training > 0
        threads, cpus = m.number("compute_threads"), m.number("cpus_allowed")
        yield from self.finding(
            f"{threads:.0f} compute threads share {cpus:.0f} CPUs, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if delayed else self.pressed_confidence,
            seen=(
                f"{threads:.0f} threads of ranks and workers in {cpus:.0f} CPUs; workers wait for a CPU "
                f"{m.get('batch_run_delay_share', 0.0):.0%} of the time that a batch takes, the training thread "
                f"{m.get('main_run_delay_share', 0.0):.0%} of the watched time"
                + (
                    f", some task of the machine {pressure:.0%}"
                    if (pressure := m.get("cpu_pressure_share", 0.0))
                    else ""
                )
            ),
            locations=m.one("compute_threads").locations,
            fixes=self._fixes(int(cpus / max(m.get("ranks_on_machine", 1.0), 1.0) - m.get("num_workers", 0.0))),
        )

    def _seen_live(self, batches: Measurements) -> tuple[Fix, ...]:
        fixes = self._fixes(int(batches.get("cpus_allowed", 1.0) - batches.number("num_workers")))
        if "compute_threads" in batches:
            return fixes
        return (taken.run_elsewhere(batches), *fixes[:1])  # its own threads are few: others have the CPUs

    def _fixes(self, free: int) -> tuple[Fix, ...]:
        edits = (Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual, "prior": 1.0}),)
        return (
            Fix(
                "give each process its part of the CPUs",
                f"OMP_NUM_THREADS={int(min(max(free, 1), self.threads))} python train.py\n"
                "# ranks x threads + workers: no more than CPUs",
                effort="setting",
                applies=self.applies,
                risk="work on the CPU that is large in a single process gets slower",
                edits=edits,
            ),
            Fix(
                "one thread per worker",
                "DataLoader(..., worker_init_fn=lambda worker: torch.set_num_threads(1))\n"
                "# OpenCV has a pool of its own: cv2.setNumThreads(0)",
                effort="argument",
                applies=self.applies,
                risk="none known: workers are parallel by themselves",
                edits=edits,
            ),
        )

    cases = (
        Fires(
            "eight workers with a pool of 32 threads each",
            compute_threads=288,
            cpus_allowed=32,
            num_workers=8,
            batch_run_delay_share=0.7,
            batch_cpu_share=0.25,
            job_cpu_share=0.99,
            lost_data_workers_share=0.5,
        ),
        Fires(
            "eight ranks, each with a thread for every CPU",
            compute_threads=2944,
            cpus_allowed=368,
            main_run_delay_share=0.25,
            on_gpu=True,
            utilization_mean_share=0.7,
            job_cpu_share=0.95,
        ),
        Fires(
            "two workers with a pool of eight threads each, in two CPUs",
            compute_threads=18,
            cpus_allowed=2,
            num_workers=2,
            batch_run_delay_share=0.0,
            batch_cpu_share=1.0,
            cpu_pressure_share=0.95,
            job_cpu_share=0.99,
            lost_data_workers_share=0.7,
        ),
        Silent(
            "as many as by default, and busy: input.cpu_transform",
            compute_threads=40,
            cpus_allowed=32,
            num_workers=8,
            batch_run_delay_share=0.4,
            batch_cpu_share=0.55,
            job_cpu_share=0.97,
            lost_data_workers_share=0.5,
        ),
        Silent(
            "many threads, which sleep",
            compute_threads=400,
            cpus_allowed=32,
            batch_run_delay_share=0.02,
            job_cpu_share=0.2,
            lost_data_workers_share=0.5,
        ),
        Silent(
            "the GPU never waits",
            compute_threads=400,
            cpus_allowed=32,
            main_run_delay_share=0.3,
            on_gpu=True,
            utilization_mean_share=0.99,
        ),
    )
