from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold

_OWN = ("gpu_busy_share", "launch_bound_share", "idle_kernel_gap_share")  # of this job, by its trace


class GpuShared(Rule):
    """A process that is not the job's works on one of its GPUs.

    ## Why it costs time
    A GPU runs the kernels of one process at a time, in turns. Two jobs that keep it busy take twice as long each: 56
    samples/s alone, 27 beside another in one public case. Utilization is at 99% meanwhile.

    ## How we know
    NVML lists a foreign process with at least a gigabyte on one of the job's GPUs for most of the samples, and the GPU
    is nearly always busy. What the other process takes is what NVML counts as busy beyond what the job's own trace
    does, at most half; short pauses between the job's kernels count as busy, since NVML does not see them. Without a
    trace that is not measured, and a tenth is assumed: the process may as well hold its memory and do nothing.

    ## When to ignore it
    It is a notebook that was left open: it takes memory, not time. With MPS or MIG the GPU is divided on purpose.
    """

    needs = (("foreign_share", "foreign_memory_bytes", "utilization_mean_share"),)
    uses = (*_OWN, *waits.READ)
    busy = ("foreign_share",)

    present = Threshold(0.5, "of samples", source="judgement: someone who looks in for a moment is not the reason")
    large = Threshold(1e9, "B", source="judgement: a desktop or an idle context holds 0.1 to 0.6 GB")
    full = Threshold(0.9, "of watched", source="judgement: below it there is room for both")
    half = Threshold(0.5, "of watched", source="two equal jobs in turns: 56 to 27 samples/s in a public case")
    assumed = Threshold(0.1, "of watched", source="judgement: what it takes was not measured, and may be nothing")
    confidence = Threshold(
        0.6, "probability", source="judgement, not calibrated yet: a few recorded steps against the whole run"
    )
    assumed_confidence = Threshold(0.4, "probability", source="judgement, not calibrated yet: it may be idle")
    applies = Threshold(0.6, "probability", source="judgement: one of the two can move")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the time that this rule speaks for; 0 where it is silent."""
        if any(name not in m for name in cls.needs[0]):
            return 0.0
        share, used = m.number("foreign_share"), m.number("utilization_mean_share")
        if share < cls.present or m.number("foreign_memory_bytes") < cls.large or used < cls.full:
            return 0.0
        if "gpu_busy_share" not in m:
            return min(cls.assumed * share, waits.at_work(m))
        return min(max(used - cls._own(m), 0.0), cls.half * share, waits.at_work(m))

    @classmethod
    def _own(cls, m: Measurements) -> float:
        """Return how busy NVML would find the GPU with this job alone: it does not see short pauses."""
        return sum(m.get(name, 0.0) for name in _OWN)

    def _left(self, m: Measurements, lost: float) -> float:
        """Return what is left of the time that kernels take once the other process is gone."""
        work = waits.at_work(m)
        return 1 - min(lost / work, 1.0) if work > 0 else 1.0

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        measured = "gpu_busy_share" in m
        own = f", {self._own(m):.0%} of it by the job's own trace" if measured else ""
        yield from self.finding(
            f"Another process is on the GPU, which costs about {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if measured else self.assumed_confidence,
            seen=(
                f"in {m.number('foreign_share'):.0%} of the samples a process that is not the job's holds up to "
                f"{m.number('foreign_memory_bytes') / 1e9:.1f} GB; the GPU is busy "
                f"{m.number('utilization_mean_share'):.0%}{own}"
            ),
            locations=m.one("foreign_share").locations,
            fixes=(
                Fix(
                    "move one of the two",
                    "nvidia-smi pmon -c 5   # who uses it, and how much\nCUDA_VISIBLE_DEVICES=1 python train.py",
                    effort="setting",
                    applies=self.applies,
                    risk="the other process is someone's: ask",
                    edits=(
                        Edit(
                            "scale_device",
                            {"class": "compute"},
                            {"factor": self._left(m, lost)} | ({} if measured else {"prior": 1.0}),
                        ),
                    ),
                ),
            ),
        )

    cases = (
        Fires(
            "two jobs in turns, by the trace",
            foreign_share=1.0,
            foreign_memory_bytes=9e9,
            utilization_mean_share=0.99,
            gpu_busy_share=0.52,
        ),
        Fires("what it takes is not known", foreign_share=1.0, foreign_memory_bytes=9e9, utilization_mean_share=0.99),
        Silent("a desktop", foreign_share=1.0, foreign_memory_bytes=3e8, utilization_mean_share=0.99),
        Silent(
            "a notebook that holds memory, by the trace",
            foreign_share=1.0,
            foreign_memory_bytes=9e9,
            utilization_mean_share=0.97,
            gpu_busy_share=0.98,
        ),
        Silent(
            "a notebook beside a job of many short kernels, whose pauses NVML does not see",
            foreign_share=1.0,
            foreign_memory_bytes=9e9,
            utilization_mean_share=0.98,
            gpu_busy_share=0.5,
            launch_bound_share=0.45,
            idle_kernel_gap_share=0.04,
        ),
        Silent("there is room for both", foreign_share=1.0, foreign_memory_bytes=9e9, utilization_mean_share=0.4),
    )
