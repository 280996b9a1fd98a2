"""A DataLoader with worker processes: a closed loop.

The training process asks for a batch, and each batch that it takes lets one more be made: `workers * prefetch` are
outstanding at most. Tasks are dealt to the workers in turn, each worker does its own one after the other, and batches
are handed over in order, so one slow batch holds up those behind it. Workers share the cores of their rank.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from world.job import Data

DRAWN = 4096  # batches for which times are drawn ahead
NOTHING = 1e-3  # microseconds that are left of a task when it counts as done


class Workers:
    """The worker processes of one loader. Time is in microseconds."""

    def __init__(self, data: Data, now: float, jitter: np.random.Generator) -> None:
        self.data = data
        shape = 1 / max(data.variation, 1e-3) ** 2
        # by batch, so that what one batch takes does not depend on when others were made
        self.factors: list[list[float]] = jitter.gamma(shape, 1 / shape, (DRAWN, 2)).tolist()
        self.tasks: list[deque[int]] = [deque() for _ in range(data.workers)]
        self.phase: list[tuple[int, float, float] | None] = [None] * data.workers  # batch, reading left, computing left
        self.ready_at = [now + data.start_us] * data.workers  # a process that has just started
        self.clock = now
        self.done: dict[int, float] = {}
        self.asked = 0
        self.taken = 0
        for _ in range(data.workers * data.prefetch):
            self._ask()

    def take(self, now: float) -> float:
        """Ask for the next batch at `now`; return when it is there."""
        self._run(now)
        while not self._deliverable():
            self._advance(self._next_event())
        batch = self._deliverable()[0]
        arrived = max(now, self.done.pop(batch))
        self.taken += 1
        self.clock = max(self.clock, arrived)
        self._ask()
        return arrived

    @property
    def computing(self) -> int:
        """Return how many workers want a core."""
        return sum(phase is not None and phase[1] <= 0 for phase in self.phase)

    def _deliverable(self) -> list[int]:
        if not self.done:
            return []
        if not self.data.in_order:
            return [min(self.done, key=self.done.__getitem__)]
        return [self.taken] if self.taken in self.done else []

    def _ask(self) -> None:
        self.tasks[self.asked % self.data.workers].append(self.asked)
        self.asked += 1
        self._begin()

    def _begin(self) -> None:
        """Let workers that have nothing to do take up their next task."""
        for worker, tasks in enumerate(self.tasks):
            if tasks and self.phase[worker] is None and self.ready_at[worker] <= self.clock:
                batch = tasks.popleft()
                reading, computing = self.factors[batch % DRAWN]
                cold = self.data.cold_scale if batch < self.data.cold else 1.0
                self.phase[worker] = (batch, self.data.read_us * cold * reading, self.data.batch_us * computing)

    @property
    def speed(self) -> float:
        """Return the share of a core that each computing worker gets; the training thread wants one, too."""
        return min(1.0, self.data.cores / (self.computing + 1))

    def _next_event(self) -> float:
        speed = self.speed
        times = [
            self.clock + (phase[1] if phase[1] > 0 else phase[2] / speed) for phase in self.phase if phase is not None
        ]
        times += [at for worker, at in enumerate(self.ready_at) if at > self.clock and self.tasks[worker]]
        return min(times)

    def _run(self, until: float) -> None:
        """Let the workers work until a time."""
        while self.clock < until:
            busy = any(phase is not None for phase in self.phase)
            waiting = any(at > self.clock and self.tasks[worker] for worker, at in enumerate(self.ready_at))
            if not busy and not waiting:
                self.clock = until
                return
            self._advance(min(until, self._next_event()))

    def _advance(self, to: float) -> None:
        step, speed = to - self.clock, self.speed
        self.clock = to
        for worker, phase in enumerate(self.phase):
            if phase is None:
                continue
            batch, reading, computing = phase
            if reading > 0:
                reading = reading - step if reading - step > NOTHING else 0.0
            else:
                computing -= step * speed
            if reading <= 0 and computing <= NOTHING:
                self.done[batch] = to
                self.phase[worker] = None
            else:
                self.phase[worker] = (batch, reading, computing)
        self._begin()
