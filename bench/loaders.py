"""Simulated trainings with a DataLoader, of which it is known how fast they are with any number of workers.

Written apart from what it judges: it imports nothing of whyidle and knows nothing of `replay/loader.py`. It is finer
than that: a batch is several pieces, each a delay, a read from storage that workers share, and computing on CPUs that
they share with the training; two CPUs of a core are less than two; computing beside others is slower.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

PIECES = 4  # of a batch, one after the other
WARM_UP = 150  # batches that are not counted


@dataclass(frozen=True)
class Job:
    """A training of one rank; times in s, of a batch, where nothing else runs."""

    kind: str
    seed: int
    cpus: int  # logical
    host: float  # of the training, on a CPU
    gpu: float  # of the training, on none
    computes: float  # of a worker
    reads: float = 0.0  # of a worker alone: what it gets from storage at its full pace
    delays: float = 0.0  # of a worker: latency, which any number may wait for at a time
    streams: float = math.inf  # workers that storage serves at their full pace
    cv: float = 0.0
    heavy: bool = False  # log-normal in place of gamma
    cores: float = 1.0  # part of the CPUs that are cores; the others are their second halves
    crowding: float = 0.0  # computing is so much slower when all CPUs compute
    surplus: float = 0.0  # and so much for each CPU's worth of workers beyond the CPUs
    handover: float = 0.001  # that the training spends to receive a batch from a worker
    prefetch: int = 2
    ranks: int = 1


@dataclass(frozen=True)
class Ran:
    """What a job did with some number of workers, per batch."""

    step: float
    wait: float  # part of the step
    fetch: float
    fetch_cv: float
    fetch_cpu: float
    blocked: float  # part of the workers' time
    cpu_busy: float  # part of the CPUs


class Clock:
    """What happens when: delays, and what shares CPUs and storage."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order = count()
        self.delayed: list[tuple[float, int, Callable[[], None]]] = []
        self.pools: list[Pool] = []

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        heapq.heappush(self.delayed, (self.now + seconds, next(self.order), then))

    def run(self, until: Callable[[], bool]) -> None:
        while not until():
            pool = min(self.pools, key=Pool.next)
            at = self.delayed[0][0] if self.delayed else math.inf
            if pool.next() < at:
                self._to(pool.next())
                heapq.heappop(pool.tasks)[2]()
            else:
                self._to(at)
                heapq.heappop(self.delayed)[2]()

    def _to(self, at: float) -> None:
        for pool in self.pools:
            pool.pass_by(at - self.now)
        self.now = at


class Pool:
    """Something that tasks share alike: each is done when the work that every task has got since it came is its own."""

    def __init__(self, clock: Clock, speed: Callable[[int], float], on: Callable[[int], float]) -> None:
        self.clock, self.speed, self.on = clock, speed, on
        self.tasks: list[tuple[float, int, Callable[[], None]]] = []
        self.work = self.served = self.used = 0.0  # of each task that was there all along; of all
        clock.pools.append(self)

    def add(self, work: float, then: Callable[[], None]) -> None:
        heapq.heappush(self.tasks, (self.work + work, next(self.clock.order), then))

    def next(self) -> float:
        if not self.tasks:
            return math.inf
        return self.clock.now + max(self.tasks[0][0] - self.work, 0.0) / self.speed(len(self.tasks))

    def pass_by(self, seconds: float) -> None:
        tasks = len(self.tasks)
        if tasks:
            self.work += self.speed(tasks) * seconds
            self.served += self.on(tasks) * seconds
            self.used += self.on(tasks) * tasks * seconds


class Playing:
    """One job with one number of workers."""

    def __init__(self, job: Job, workers: int, batches: int) -> None:
        self.job, self.workers, self.batches = job, workers, batches + WARM_UP
        self.clock = Clock()
        cores = max(job.cpus * job.cores, 1.0)
        excess = 1 + job.surplus * max(workers + 1 - job.cpus, 0) / job.cpus

        def speed(tasks: int) -> float:
            at_once = min(tasks, job.cpus)
            power = at_once if at_once <= cores else cores + 0.3 * (at_once - cores)
            return power / tasks / (1 + job.crowding * (at_once - 1) / job.cpus) / excess

        self.cpu = Pool(self.clock, speed, lambda tasks: min(1.0, job.cpus / tasks))
        self.storage = Pool(self.clock, lambda tasks: min(1.0, job.streams / tasks), lambda _: 0.0)
        random = np.random.default_rng(job.seed)
        if job.cv <= 0:
            self.sizes = np.ones(self.batches)
        elif job.heavy:
            sd = math.sqrt(math.log1p(job.cv**2))
            self.sizes = random.lognormal(-(sd**2) / 2, sd, self.batches)
        else:
            self.sizes = random.gamma(1 / job.cv**2, job.cv**2, self.batches)
        self.ready: set[int] = set()
        self.asked: list[list[int]] = [[] for _ in range(max(workers, 1))]
        self.busy = [False] * max(workers, 1)
        self.given = self.taken = 0
        self.waiting_since: float | None = None
        self.fetches: list[tuple[float, float, float]] = []  # wall, on a CPU, blocked
        self.starts: list[float] = []
        self.waits: list[float] = []

    def run(self) -> Ran:
        if self.workers:
            for _ in range(self.workers * self.job.prefetch):
                self._give()
        self._ask()
        self.clock.run(lambda: self.taken >= self.batches)
        steps = np.diff(self.starts[WARM_UP:])
        wall, on_cpu, blocked = (np.array(column[WARM_UP // 2 :]) for column in zip(*self.fetches, strict=True))
        return Ran(
            step=float(steps.mean()),
            wait=float(np.mean(self.waits[WARM_UP + 1 :]) / steps.mean()),
            fetch=float(wall.mean()),
            fetch_cv=float(wall.std() / wall.mean()),
            fetch_cpu=float(on_cpu.mean()),
            blocked=float(blocked.sum() / wall.sum()),
            cpu_busy=self.cpu.used / self.clock.now / self.job.cpus,
        )

    def _give(self) -> None:
        """Ask the next worker, in turn, for the next batch."""
        if self.given < self.batches:
            worker = self.given % self.workers
            self.asked[worker].append(self.given)
            self.given += 1
            self._work(worker)

    def _work(self, worker: int) -> None:
        if self.busy[worker] or not self.asked[worker]:
            return
        self.busy[worker] = True
        batch = self.asked[worker].pop(0)

        def done() -> None:
            self.busy[worker] = False
            self.ready.add(batch)
            self._arrived()
            self._work(worker)

        self._make(batch, done)

    def _make(self, batch: int, done: Callable[[], None]) -> None:
        """Make a batch, piece by piece."""
        job, size = self.job, float(self.sizes[batch]) / PIECES
        began, used = self.clock.now, [0.0, 0.0]
        steps = self._pieces(size, job, used)

        def go_on() -> None:
            begin = next(steps, None)
            if begin is not None:
                begin(go_on)
                return
            self.fetches.append((self.clock.now - began, used[0], used[1]))
            done()

        go_on()

    def _pieces(self, size: float, job: Job, used: list[float]) -> Iterator[Callable[[Callable[[], None]], None]]:
        for _ in range(PIECES):
            now = self.clock.now
            if job.delays:
                yield lambda then: self.clock.after(job.delays * size, then)
            if job.reads:
                yield lambda then: self.storage.add(job.reads * size, then)
            used[1] += self.clock.now - now
            served = self.cpu.served
            yield lambda then: self.cpu.add(job.computes * size, then)
            used[0] += self.cpu.served - served

    def _ask(self) -> None:
        self.waiting_since = self.clock.now
        if not self.workers:
            self._make(self.taken, self._inline)
        else:
            self._arrived()

    def _inline(self) -> None:
        self.ready.add(self.taken)
        self._arrived()

    def _arrived(self) -> None:
        if self.waiting_since is None or self.taken not in self.ready:
            return
        self.ready.discard(self.taken)
        self.starts.append(self.clock.now)
        self.waits.append(self.clock.now - self.waiting_since)
        self.waiting_since = None
        self.taken += 1
        if self.workers:
            self._give()
        received = self.job.handover if self.workers else 0.0
        self.cpu.add(self.job.host + received, lambda: self.clock.after(self.job.gpu, self._ask))


def ran(job: Job, workers: int, batches: int = 500) -> Ran:
    """Return what the job does with so many workers."""
    return Playing(job, workers, batches).run()


KINDS = ("cpu", "latency", "bandwidth", "gpu", "crowded", "small")


def drawn(kind: str, seed: int) -> Job:
    """Return a job of that kind: what limits it if it has few workers."""
    r = np.random.default_rng((KINDS.index(kind), seed))

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** r.random())

    cpus = int(r.choice([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]))
    step = between(0.02, 0.5)
    on_host = r.uniform(0.05, 0.4)
    shape = {
        "cv": float(r.choice([0.0, r.uniform(0, 0.3), r.uniform(0, 1)])),
        "heavy": bool(r.random() < 0.25),
        "cores": float(r.choice([1.0, 1.0, 0.5])),
        "crowding": float(r.choice([0.0, 0.1, 0.3])),
        "surplus": float(r.choice([0.0, 0.2])),
        "handover": between(0.0003, 0.002),
        "prefetch": 2 if r.random() < 0.8 else 4,
        "ranks": int(r.choice([1, 1, 2, 4, 8])),
    }
    needs = between(0.3, 1.6 * cpus)  # workers that are at work all the time, if they make as much as is used
    making, io = needs * step, r.uniform(0.3, 0.95)
    match kind:
        case "cpu":
            made = {"computes": making * 0.9, "delays": making * 0.1}
        case "latency":
            made = {"computes": making * (1 - io), "delays": making * io * 0.7, "reads": making * io * 0.3}
            made["streams"] = 4.0 * cpus
        case "bandwidth":
            full = between(0.4, 1.5) * needs * io  # more than it needs, or less
            made = {"computes": making * (1 - io), "reads": making * io, "streams": max(full, 0.5)}
        case "gpu":
            making = step * between(0.05, 0.9)
            made = {"computes": making * 0.7, "delays": making * 0.3}
        case "crowded":
            made = {"computes": making, "crowding": r.uniform(0.3, 1.0), "surplus": r.uniform(0.3, 1.0)}
        case _:
            step, making = between(0.002, 0.02), between(0.0005, 0.01)
            made = {"computes": making * 0.8, "delays": making * 0.2}
    return Job(kind, seed, cpus, step * on_host, step * (1 - on_host), **(shape | made))
