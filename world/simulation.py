"""Run a job: all its ranks, which meet in collectives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from world.job import Job
from world.process import Process
from world.program import Collective, Program


@dataclass(frozen=True, slots=True)
class Run:
    """A job that has run."""

    job: Job
    ranks: list[Process]

    @property
    def step_us(self) -> float:
        """Return the mean time of a recorded step: from where the GPU is empty to where it is empty again."""
        return max(p.step_ends[-1] - p.began for p in self.ranks) / self.job.steps

    @property
    def launched(self) -> int:
        """Return the number of kernels, copies and fills that were simulated."""
        return sum(p.launched for p in self.ranks)


def run(job: Job) -> Run:
    """Run a job to its end.

    Ranks take turns: each runs until it comes to a collective. Every rank comes to the same ones in the same order, so
    when all have come, it starts on each when it is ready there and ends on all at once.
    """
    ranks = [Process(job, rank) for rank in range(job.ranks)]
    programs = [Program(process, job).run() for process in ranks]
    while arrived := [collective for program in programs if (collective := next(program, None)) is not None]:
        assert len(arrived) == len(ranks), "a rank left before the others"
        meet(ranks, arrived)
    return Run(job, ranks)


@lru_cache(maxsize=256)
def step_us(job: Job) -> float:
    """Return the step time of a job; a job is the same whenever it runs, so none is run twice for it."""
    return run(job).step_us


def meet(ranks: list[Process], arrived: list[Collective]) -> None:
    """Let a collective take place: the transfer begins when the last rank is ready."""
    last = max(collective.ready for collective in arrived)
    for process, c in zip(ranks, arrived, strict=True):
        end = last + max(c.us, 2.0)
        process.join(c.ready, end, c.kernel, c.call, c.correlation, c.reason, c.arguments)
        if process.recording:
            process.collective_wait += last - c.ready
