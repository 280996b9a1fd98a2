"""Looks at a job that runs, for some seconds, from outside: counters of its processes, and what their threads do.

Everything is read from /proc and asked of NVML. The job is not stopped, traced or signalled, and nothing is written
where it could see it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from whyidle.collect.host import Host
from whyidle.collect.machine import machine
from whyidle.collect.processes import Process, Processes
from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Stack
from whyidle.model.live import Live
from whyidle.watch.pid import job, machine_seen
from whyidle.watch.pid.counted import Counted
from whyidle.watch.pid.gpus import JobGpus
from whyidle.watch.pid.stacks import Stacks

# Uneven, so that no step of a fixed length always meets the same moment of it; 0.1 s in the mean.
PAUSES_S = (0.10, 0.07, 0.13, 0.09, 0.11, 0.06, 0.14)
LOOK_S = 1.0  # between two looks for processes that came or went
MOST_SAMPLED = 64  # processes of which the main thread is looked at: about 50 us of CPU each time
HIDDEN_FILES = "its open files are hidden from this user: as root, or as who started it, they show"
HIDDEN_READS = "what it reads is hidden from this user: as root, or as who started it, that shows"


class Watch:
    """One look at a job.

    Args:
        pid: a process of it; those below belong to it.
        seconds: how long to look.
        root: where the machine's files lie.
        gpus: ask NVML.
        stacks: ask py-spy.

    Raises:
        WhyIdleError: there is no such process, or it is no job of Python.
    """

    def __init__(
        self, pid: int, seconds: float, *, root: Path = Path("/"), gpus: bool = True, stacks: bool = True
    ) -> None:
        self.warnings: list[str] = []
        self._seconds, self._root = seconds, root
        self._pid, said = job.root_of(pid, root)
        if said:
            self._warn(said)
        self._processes: Processes = job.processes(self._pid, self._warn, root)
        if self._pid not in self._processes.alive:
            raise WhyIdleError(f"process {pid} has just ended", job.FIND)
        if job.runs_python(self._members(), root) is False:
            name = self._processes.alive[self._pid].stat.name
            raise WhyIdleError(f"neither process {pid} ({name}) nor what it started runs Python", job.FIND)
        self._host, self._machine = Host(root, self._pid), machine(root, self._pid)
        self._counted: dict[int, Counted] = {}
        self._gpus = JobGpus(self._processes.pids(), self._pid, root) if gpus else None
        self._stacks = Stacks(self._pid, seconds) if stacks else None

    def _members(self) -> dict[int, Process]:
        """Return the job's processes without us and py-spy: who gives the shell that started both means the other."""
        alive, own = self._processes.alive, os.getpid()
        if own not in alive or self._root != Path("/"):
            return dict(alive)
        return {pid: process for pid, process in alive.items() if own not in (pid, process.stat.parent)}

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def run(self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> Live:
        """Look, and return what was seen; less if the job ends meanwhile."""
        try:
            began, before = clock(), self._host.sample()
            self._look(began)
            self._sample_until(began, clock, sleep)
            ended, after = clock(), self._host.sample()
            self._look(ended)
            shown = [counted.close() for counted in self._counted.values() if not counted.ended]
            stacks = self._stacks.read() if self._stacks else {}
        finally:
            if self._stacks:
                self._stacks.close()
        if not all(shown):
            self._warn(HIDDEN_FILES)
        seconds = max(ended - began, 1e-9)
        used = sum(counted.last.cpu_s - counted.first.cpu_s for counted in self._counted.values())
        return self._live(seconds, stacks, machine_seen.counters(self._machine, before, after, seconds, used_s=used))

    def _sample_until(self, began: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        end, next_look, turn = began + self._seconds, began + LOOK_S, 0
        while (now := clock()) < end and self._pid in self._processes.alive:
            if now >= next_look:
                next_look = now + LOOK_S
                self._look(now)
            for counted in [one for one in self._counted.values() if not one.ended][:MOST_SAMPLED]:
                counted.sample()
            sleep(min(PAUSES_S[turn % len(PAUSES_S)], max(end - clock(), 0.0)))
            turn += 1

    def _look(self, now: float) -> None:
        """Find processes that came or went, and read the counters of all."""
        if self._counted:
            self._processes.look(round(now * 1e9))
        for pid, process in self._members().items():
            if pid not in self._counted or self._counted[pid].process is not process:
                self._counted[pid] = Counted(process, now, self._root)
            else:
                self._counted[pid].count(now)
        for pid, counted in self._counted.items():
            counted.ended = pid not in self._processes.alive

    def _live(self, seconds: float, stacks: Mapping[int, tuple[Stack, ...]], counters: Mapping[str, float]) -> Live:
        all_of_it = self._counted
        gpus = self._gpus.close() if self._gpus else None
        with_device = {pid for pid, counted in all_of_it.items() if counted.opens_gpu()}
        with_device |= gpus.ours if gpus else set()
        everybody = {pid: counted.process for pid, counted in all_of_it.items()}
        roles = job.roles(everybody, with_device, self._root)
        if not all(counted.moved for counted in all_of_it.values()):
            self._warn(HIDDEN_READS)
        on_gpu = bool(with_device)
        unknown = not on_gpu and all(counted.opened is None for counted in all_of_it.values())
        return Live(
            pid=self._pid,
            seconds=seconds,
            processes=tuple(
                counted.evidence(roles[pid], job.above(pid, everybody), stacks.get(pid, ()))
                for pid, counted in sorted(all_of_it.items())
            ),
            machine=counters,
            on_gpu=None if unknown else on_gpu,
            gpu_series=gpus.series if gpus and on_gpu else (),
            gpu_names=gpus.names if gpus and on_gpu else {},
            gpu_facts=gpus.facts if gpus and on_gpu else {},
            stacks=self._stacks.why_not if self._stacks else "py-spy was not asked",
            ended=self._pid not in self._processes.alive,
            warnings=(*self.warnings, *(gpus.warnings if gpus and (on_gpu or unknown) else ())),
        )
