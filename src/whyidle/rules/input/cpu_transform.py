from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live, waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_workers, taken
from whyidle.rules.input.late_workers import TRANSFORM, WAIT


class CpuTransform(Rule):
    """The DataLoader's workers compute all the time, and no CPU is left: decoding, augmenting or tokenizing is slow.

    ## Why it costs time
    A batch takes so much CPU time that all CPUs of the job together make batches more slowly than the GPU uses
    them. More workers would only share the same CPUs.

    ## How we know
    The training waits for workers, these compute or wait for a CPU for most of the time that a batch takes, and
    the job uses nearly all CPUs that it may use, or workers wait for one: then other programs use them, too. The
    kernel counts both for each worker; what keeps the machine busy and is not the job's is other programs'. If CPUs
    were free, more workers would help (`input.workers_too_few`); blocked workers are `input.storage`. A quota, a
    narrow affinity and pools of threads have rules of their own.

    What can be saved is bounded by the wait, and by the part of a batch's time that is CPU time.

    `whyidle watch --pid` tells it of a running job by the same shares of the workers' whole time: where training
    starves, they have a batch to make at any time.

    ## When to ignore it
    The transform is part of the experiment, and there are more CPUs to be had: then a machine with more of them per
    GPU does as well.
    """

    needs = ((WAIT, "batch_cpu_share", "job_cpu_share"), live.NEEDS)
    uses = ("look_site", "on_gpu", *late_workers.READ, *live.READ)
    explains = ("data_wait",)

    confidence = Threshold(
        0.75, "probability", source="judgement, not calibrated yet: CPU time is counted by the kernel"
    )
    unsure_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: another cause was not ruled out"
    )
    in_use = late_workers.BUSY
    delayed = late_workers.DELAYED
    explains_enough = late_workers.EXPLAINS
    once_applies = Threshold(0.6, "probability", source="judgement: what is random has to stay in the loop")
    gpu_applies = Threshold(0.5, "probability", source="judgement: 188 to 615 samples/s on an A100 in one public case")
    alone_applies = taken.APPLIES
    taken_much = taken.MUCH
    processes = Threshold(8, "processes", source="judgement: one pass over a data set; never more than there are CPUs")
    residual = Threshold(0.3, "of the wait", source="judgement: reading and the cheap transforms remain")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, lambda batches: tuple(self._fixes(batches)))
            return
        lost = late_workers.claimed(m, TRANSFORM)
        others = late_workers.undecided(m, TRANSFORM)
        workers = "the workers"
        if "num_workers" in m:
            workers = "1 worker" if m.number("num_workers") == 1 else f"{m.number('num_workers'):.0f} workers"
        delay = m.get("batch_run_delay_share", 0.0)
        site = str(m.one("look_site").value) if "look_site" in m else ""
        crowded_out = taken.much(m) or (m.number("job_cpu_share") < self.in_use and delay >= self.delayed)
        what = "Making batches takes all the CPU there is"
        if crowded_out:
            what = "Making batches takes more CPU than other programs leave"
        if crowded_out and not taken.much(m):  # nor seen who has them: a pod's share of CPUs leaves no trace of its own
            others = tuple(dict.fromkeys((*others, "host.cpu_quota")))
        said = taken.said(m)
        yield from self.finding(
            f"{what} while {waits.who(m)} waits, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.unsure_confidence if others else self.confidence,
            seen=(
                (f"{said}; " if said else "")
                + f"the training waits {m.number(WAIT):.0%} of the time for {workers}: computing takes "
                f"{m.number('batch_cpu_share'):.0%} of the time that a batch takes, waiting for a CPU {delay:.0%}; "
                f"the job uses {m.number('job_cpu_share'):.0%} of the CPUs that it may use"
                + (f"; most time goes to {site}" if site else "")
            ),
            locations=m.one("look_site" if site else WAIT).locations,
            fixes=(*((taken.run_elsewhere(m),) if crowded_out else ()), *self._fixes(m)),
            candidates=others,
        )

    def _fixes(self, m: Measurements) -> Iterator[Fix]:
        edits = (Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual, "prior": 1.0}),)
        processes = taken.at_most(m, int(self.processes))
        yield Fix(
            "do once what is the same in every epoch: decode, resize, tokenize ahead, and store the result",
            f"dataset = dataset.map(tokenize, batched=True, num_proc={processes})  # cached on disk; images: resized",
            effort="code",
            applies=self.once_applies,
            risk="takes disk space; random augmentation has to stay in the loop",
            edits=edits,
        )
        if waits.on_gpu(m):
            yield Fix(
                "transform whole batches on the GPU",
                "batch = batch.to(device, non_blocking=True)\n"
                "batch = transforms(batch)  # torchvision.transforms.v2 and kornia take batches on the GPU",
                effort="code",
                applies=self.gpu_applies,
                risk="GPU memory and time; most such transforms draw one random number for the whole batch",
                edits=edits,
            )

    cases = (
        Fires(
            "eight workers on eight CPUs, all busy",
            lost_data_workers_share=0.6,
            batch_cpu_share=0.92,
            batch_run_delay_share=0.06,
            batch_blocked_share=0.02,
            job_cpu_share=0.97,
            cpus_allowed=8,
            num_workers=8,
        ),
        Fires(
            "others use the CPUs: workers wait for one half of the time",
            lost_data_workers_share=0.6,
            batch_cpu_share=0.45,
            batch_run_delay_share=0.5,
            batch_blocked_share=0.05,
            job_cpu_share=0.4,
        ),
        Fires(
            "other programs use 1.6 of two CPUs",
            lost_data_workers_share=0.6,
            batch_cpu_share=0.35,
            batch_run_delay_share=0.6,
            batch_blocked_share=0.05,
            job_cpu_share=0.2,
            cpus_allowed=2,
            cpus_online=2,
            cpus_taken=1.6,
            num_workers=2,
            on_gpu=False,
        ),
        Silent(
            "CPUs are free: input.workers_too_few",
            lost_data_workers_share=0.6,
            batch_cpu_share=0.97,
            batch_run_delay_share=0.01,
            job_cpu_share=0.2,
            cpus_allowed=16,
            num_workers=2,
        ),
        Silent(
            "they wait for storage: input.storage",
            lost_data_workers_share=0.6,
            batch_cpu_share=0.1,
            batch_blocked_share=0.9,
            job_cpu_share=0.1,
        ),
        Silent(
            "the quota holds them back: host.cpu_quota",
            lost_data_workers_share=0.4,
            batch_cpu_share=0.3,
            batch_run_delay_share=0.6,
            job_cpu_share=0.98,
            cpu_throttled_share=0.5,
            cpu_quota=2,
            cpus_online=32,
        ),
        Silent(
            "they share two of 32 CPUs: host.cpu_affinity",
            lost_data_workers_share=0.6,
            batch_cpu_share=0.2,
            batch_run_delay_share=0.8,
            job_cpu_share=0.1,
            worker_cpus_allowed=2,
            num_workers=16,
            cpus_allowed=32,
        ),
        Silent(
            "each has a pool of 32 threads: host.cpu_oversubscription",
            lost_data_workers_share=0.6,
            batch_cpu_share=0.3,
            batch_run_delay_share=0.65,
            job_cpu_share=0.99,
            compute_threads=256,
            cpus_allowed=32,
            num_workers=8,
        ),
        Silent("keeps the GPU busy", lost_data_workers_share=0.005, batch_cpu_share=0.95, job_cpu_share=0.95),
    )
