from __future__ import annotations

import math
from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host import starved
from whyidle.rules.input import late_workers
from whyidle.rules.input.late_workers import QUOTA


class CpuQuota(Rule):
    """The container may use less CPU time than its processes ask for: the kernel stops them until the next period.

    ## Why it costs time
    A quota (`docker --cpus`, a pod's CPU limit) is so much CPU time per 100 ms. Workers and compute threads that are
    sized for the machine use it up early in each period, and then all of them stand still, the training thread too.
    `os.cpu_count()` and the affinity show the whole machine, so nothing warns.

    ## How we know
    The control group was held back in at least a tenth of the watched time, and its quota is less than the machine's
    CPUs. What is lost is bounded by the time that it was held back, or that workers waited for a CPU; and by the wait
    for workers. To that comes the time in which the training thread was ready and got no CPU, as far as the GPU
    was idle.

    `whyidle watch --pid` tells it of a running job by the same counter, over some seconds.

    ## When to ignore it
    The quota is what was paid for: then the loader and the threads have to fit into it.
    """

    needs = (("cpu_throttled_share", "cpu_quota", "cpus_online"), live.NEEDS)
    uses = (*late_workers.READ, *starved.READ, *live.READ)
    explains = ("data_wait", "python", "dispatch", "autograd_host", "optimizer_host")

    throttled = late_workers.THROTTLED
    explains_enough = late_workers.EXPLAINS
    confidence = Threshold(0.85, "probability", source="judgement, not calibrated yet: the kernel counts it")
    raise_applies = Threshold(0.6, "probability", source="judgement: if the machine has CPUs to spare")
    fit_applies = Threshold(0.5, "probability", source="judgement: less thrashing, but no more CPU time")
    more = Threshold(2, "times the quota", source="judgement: a first try; never more than the machine has")
    left = Threshold(0.5, "of the wait", source="judgement: the CPU time that batches take remains")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, lambda _: self._fixes(m.number("cpu_quota"), m.number("cpus_online")))
            return
        if not late_workers.throttled(m):
            return
        loading, training = late_workers.claimed(m, QUOTA), starved.training_thread(m)
        lost = loading + training
        quota = m.number("cpu_quota")
        yield from self.finding(
            f"The quota of {quota:g} CPUs holds the job back, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"the control group may use {quota:g} of {m.number('cpus_online'):.0f} CPUs and was held back "
                f"{m.number('cpu_throttled_share'):.0%} of the watched time; {loading:.0%} is lost waiting for "
                f"workers, {training:.0%} since the training thread gets no CPU"
            ),
            locations=m.one("cpu_throttled_share").locations,
            fixes=self._fixes(quota, m.number("cpus_online")),
        )

    def _fixes(self, quota: float, online: float) -> tuple[Fix, ...]:
        more = max(min(math.ceil(self.more * quota), int(online)), 1)
        workers, threads = max(int(quota) - 1, 1), max(int(quota), 1)
        return (
            Fix(
                "raise the quota, or have none",
                f"docker run --cpus={more} ...\n"
                f"# Kubernetes: resources: {{requests: {{cpu: {more}}}, limits: {{cpu: {more}}}}}",
                effort="setting",
                applies=self.raise_applies,
                risk="CPUs that other containers of the machine do not have then",
                edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.0, "prior": 1.0}),),
            ),
            Fix(
                "size workers and threads for the quota",
                f"OMP_NUM_THREADS={threads} python train.py   # DataLoader(..., num_workers={workers})",
                effort="setting",
                applies=self.fit_applies,
                risk="no gain where the CPU time itself is what lacks",
                edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": self.left, "prior": 1.0}),),
            ),
        )

    cases = (
        Fires(
            "eight workers in a pod of two CPUs",
            cpu_throttled_share=0.6,
            cpu_quota=2,
            cpus_online=64,
            lost_data_workers_share=0.5,
            batch_run_delay_share=0.7,
            batch_cpu_share=0.25,
            job_cpu_share=0.99,
        ),
        Fires(
            "no loader: the training thread is stopped",
            cpu_throttled_share=0.3,
            cpu_quota=2,
            cpus_online=64,
            main_run_delay_share=0.2,
            on_gpu=True,
            utilization_mean_share=0.5,
        ),
        Silent(
            "a burst now and then", cpu_throttled_share=0.03, cpu_quota=8, cpus_online=64, lost_data_workers_share=0.3
        ),
        Silent(
            "held back, and the GPU is busy all along: none.compute_bound",
            cpu_throttled_share=0.3,
            cpu_quota=8,
            cpus_online=64,
            lost_data_workers_share=0.0,
            main_run_delay_share=0.2,
            on_gpu=True,
            utilization_mean_share=1.0,
        ),
        Silent(
            "no quota, all CPUs busy: input.cpu_transform",
            cpu_throttled_share=0.0,
            cpu_quota=8,
            cpus_online=8,
            lost_data_workers_share=0.5,
            batch_cpu_share=0.9,
            job_cpu_share=0.99,
        ),
        Silent(
            "the quota explains a part, storage most of the wait: input.storage",
            cpu_throttled_share=0.12,
            cpu_quota=8,
            cpus_online=64,
            lost_data_workers_share=0.8,
            batch_blocked_share=0.9,
        ),
    )
