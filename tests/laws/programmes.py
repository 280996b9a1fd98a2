"""A small training programme that can be run again with one thing changed: the truth that replay is held against.

A host launches kernels one after the other, with a launch queue that makes it wait when it is full, copies, blocking
reads and a wait for data in each step. Times in us. It shares no code with replay, nor with `world`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.traces import Recording

LAUNCH_US, LATENCY_US, GAP_US, RETURN_US = 5, 7, 1, 8
COMPUTE, COPY = 7, 20


@dataclass(frozen=True)
class Programme:
    """What is decided before it runs."""

    steps: int = 6
    kernels: int = 40  # of a step
    kernel_us: float = 30
    host_us: float = 12  # before each launch
    data_us: float = 0  # of the host, where a step begins
    copy_us: float = 0  # of the batch; 0: none
    pageable: bool = False  # the copy blocks
    read_every: int = 0  # kernels between blocking reads; 0: none
    queue: int = 1024
    jitter: float = 0.0  # standard deviation of the logarithm of kernel and host times
    seed: int = 0

    def without(self, **changes) -> Programme:
        return replace(self, **changes)

    def run(self) -> tuple[Recording, float]:
        """Return what a profiler would have recorded, and the mean time of a step once it is steady, us."""
        return _Run(self).result()

    def recording(self) -> Recording:
        return self.run()[0]

    @property
    def step_us(self) -> float:
        return self.run()[1]


class _Run:
    def __init__(self, programme: Programme) -> None:
        self.p = programme
        self.r = Recording()
        self.chance = random.Random(programme.seed)
        self.now = 0.0
        self.ends: dict[int, list[float]] = {COMPUTE: [], COPY: []}
        self.done: list[float] = []  # when the GPU had finished each step

    def about(self, us: float) -> float:
        return us * self.chance.lognormvariate(0, self.p.jitter) if self.p.jitter else us

    def result(self) -> tuple[Recording, float]:
        for number in range(self.p.steps):
            began = self.now
            self.step()
            self.r.step(number, began, self.now)
            self.done.append(max((ends[-1] for ends in self.ends.values() if ends), default=self.now))
        half = self.p.steps // 2
        return self.r, (self.done[-1] - self.done[half - 1]) / (self.p.steps - half)

    def step(self) -> None:
        if self.p.data_us:
            began, self.now = self.now, self.now + self.about(self.p.data_us)
            self.r.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", began, self.now)
        if self.p.copy_us:
            self.launch(COPY, self.p.copy_us, blocking=self.p.pageable)
        for i in range(self.p.kernels):
            self.launch(COMPUTE, self.p.kernel_us)
            if self.p.read_every and i % self.p.read_every == self.p.read_every - 1:
                began, self.now = self.now, max(self.now, self.ends[COMPUTE][-1]) + RETURN_US
                self.r.call("cudaStreamSynchronize", began, self.now)

    def launch(self, stream: int, us: float, *, blocking: bool = False) -> None:
        self.now += self.about(self.p.host_us)
        called, ends = self.now, self.ends[stream]
        start = max(called + LATENCY_US, (ends[-1] if ends else 0) + GAP_US)
        end = start + self.about(us)
        ends.append(end)
        self.now += LAUNCH_US
        if len(ends) > self.p.queue:
            self.now = max(self.now, ends[-self.p.queue - 1])
        if blocking:
            self.now = max(self.now, end) + RETURN_US
        took = self.now - called
        if stream == COMPUTE:
            self.r.kernel(start, end, called, took=took)
        else:
            memory = "Pageable" if self.p.pageable else "Pinned"
            self.r.copy(f"Memcpy HtoD ({memory} -> Device)", start, end, called, took=took, stream=COPY)


programmes = st.builds(
    Programme,
    steps=st.integers(4, 6),
    kernels=st.integers(3, 25),
    kernel_us=st.sampled_from([3, 10, 40, 200]),
    host_us=st.sampled_from([4, 12, 35]),
    data_us=st.sampled_from([0, 0, 300, 4000]),
    copy_us=st.sampled_from([0, 0, 100, 1500]),
    pageable=st.booleans(),
    read_every=st.sampled_from([0, 0, 3, 9]),
    queue=st.sampled_from([1024, 16]),
    jitter=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 9),
)
