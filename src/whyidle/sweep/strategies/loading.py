"""What cells with other numbers of workers would do: the closed loop of the loader, fitted to the cells there are.

Every cell tells how long a batch takes a worker (`fetch_s`), on how much CPU, and what the step takes beside its wait.
Where the training waited, how long that lasted corrects the time of a batch, and where more workers did not bring what
the loop says, something that they share fills up (storage, CPUs that are half of a core). What is left between the
loop and the cells is carried over to the values between and beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from whyidle.model.trial import Cell
from whyidle.replay.loader import loop
from whyidle.rules.input.loader_model import HANDOVER, SPREAD
from whyidle.sweep.strategies.base import step_of

WAITS: Final = 0.02  # of the step: a shorter wait is none (docs/method.md)
SHORT: Final = 1.03  # times the step that the loop says: longer, and more workers did not bring what they should
WIDEST: Final = 3.0  # sd over mean: of wider ones so few batches are not simulated well
BATCHES: Final = 1500  # that are simulated: the mean of so many is within 1 to 2%
OWN_CPUS: Final = 1.0  # that the training process uses beside its workers: one thread launches
OWN_SLOWS: Final = 0.3  # of its own time, where that CPU is not free (judgement: the rest is the GPU's)
HALVINGS: Final = 12  # of the interval in which a batch's time is looked for: to 0.1%
FACTOR: Final = 8.0  # times what was measured: a step may be several batches, and their times were taken beside others


@dataclass(frozen=True, slots=True)
class Loading:
    """A training and its loader. Times in s, on CPUs of their own."""

    own: float  # of a step, beside the wait
    making: float  # the batches of a step, by one worker
    spread: float  # sd over mean of that
    cpu_share: float  # of making: computing
    prefetch: int
    cpus: float | None  # for the training and its workers
    floor: float = 0.0  # no step is shorter, whatever the workers: what they share is full
    shared_out: float = 0.0  # of a step of one worker, beyond the floor: more workers share it out
    seen: tuple[tuple[int, float], ...] = ()  # (workers, measured over modelled step), fewest first

    @classmethod
    def of(cls, cells: Mapping[int, Cell], cpus: float | None, prefetch: int) -> Loading | None:
        """Return the loader by what was measured at some numbers of workers; None where no wait was.

        Args:
            cells: with a mean step each, by number of workers.
            cpus: for the training and its workers; None is unknown, taken as enough.
            prefetch: batches that each worker makes ahead.
        """
        known = {workers: cell for workers, cell in sorted(cells.items()) if cell.data_wait_share is not None}
        if not known:
            return None
        own = min(step_of(cell) * (1 - waits(cell)) for cell in known.values())
        spreads = [cell.fetch_cv for cell in known.values() if cell.fetch_cv is not None]
        spread = min(float(np.median(spreads)), WIDEST) if spreads else float(SPREAD)
        making, share = _making(known, cpus)
        fitted = cls(max(own, 1e-9), making, spread, share, max(prefetch, 1), cpus)
        return fitted._by_waits(known)._by_shortfalls(known)._by_rest(cells)

    def step(self, workers: int) -> float:
        """Return the mean step with so many workers, s."""
        return self._modelled(workers) * self._rest(workers)

    def wait_share(self, workers: int, prefetch: int) -> float:
        """Return the part of the step that the loop says is waiting."""
        return max(1 - self.own / replace(self, prefetch=prefetch)._loop(workers), 0.0)

    def _modelled(self, workers: int) -> float:
        return max(self._loop(workers), self.floor + self.shared_out / workers if workers else 0.0)

    def _loop(self, workers: int) -> float:
        making = self.making if workers else max(self.making - HANDOVER, 0.0)  # nothing has to be handed over
        return _played(self.own, making, self.spread, self.cpu_share, workers, self.prefetch, self.cpus)

    def _rest(self, workers: int) -> float:
        if not self.seen:
            return 1.0
        at = [math.log1p(tried) for tried, _ in self.seen]
        return math.exp(float(np.interp(math.log1p(workers), at, [math.log(ratio) for _, ratio in self.seen])))

    def _by_waits(self, cells: Mapping[int, Cell]) -> Loading:
        """Return the loader whose batches take what the fewest workers that were waited for show."""
        late = [workers for workers, cell in cells.items() if waits(cell) > WAITS]
        if not late or self.making <= 0:
            return self
        workers, low, high = late[0], self.making / FACTOR, self.making * FACTOR
        for _ in range(HALVINGS):
            middle = math.sqrt(low * high)
            longer = replace(self, making=middle)._loop(workers) > step_of(cells[workers])
            low, high = (low, middle) if longer else (middle, high)
        return replace(self, making=math.sqrt(low * high))

    def _by_shortfalls(self, cells: Mapping[int, Cell]) -> Loading:
        """Return the loader whose workers share something, where more of them did not bring what the loop says.

        What is shared takes the same time whatever their number, the rest is shared out: a + b / workers, as the last
        two numbers of workers that were waited for have it.
        """
        late = [workers for workers, cell in cells.items() if workers and waits(cell) > WAITS]
        if len(late) < 2 or step_of(cells[late[-1]]) <= SHORT * self._loop(late[-1]):
            return self
        few, many = late[-2:]
        slow, quick = step_of(cells[few]), step_of(cells[many])
        floor = max((many * quick - few * slow) / (many - few), 0.0)
        if floor >= quick:  # they brought nothing
            return replace(self, floor=min(slow, quick))
        return replace(self, floor=floor, shared_out=(slow - floor) * few)

    def _by_rest(self, cells: Mapping[int, Cell]) -> Loading:
        ratios = [(workers, step_of(cell) / self._modelled(workers)) for workers, cell in sorted(cells.items())]
        return replace(self, seen=tuple(ratios))


def waits(cell: Cell) -> float:
    """Return the part of the step that is waiting for data; 0 where that was not measured."""
    return min(max(cell.data_wait_share or 0.0, 0.0), 0.99)


def _making(cells: Mapping[int, Cell], cpus: float | None) -> tuple[float, float]:
    """Return how long a worker takes for a batch on a CPU of its own, and which part of that it computes."""
    for workers, cell in cells.items():
        if cell.fetch_s is None or cell.fetch_s <= 0:
            continue
        computed = cell.fetch_cpu_s
        if computed is None:
            computed = cell.fetch_s * (1 - (cell.io_wait_share or 0.0))
        slow = 1.0 if cpus is None or not workers else max((workers + OWN_CPUS) / cpus, 1.0)
        making = computed + max(cell.fetch_s - computed * slow, 0.0)
        if making > 0:
            return making, min(computed / making, 1.0)
    # Of a loader that is waited for the pace of its workers is the step's; else it is at least that: half is tried.
    workers, cell = next(iter(cells.items()))
    making = step_of(cell) * (workers if waits(cell) > WAITS else workers / 2)
    return making or step_of(cell) * waits(cell), 1.0


@lru_cache(maxsize=4096)
def _played(
    own: float, making: float, spread: float, cpu_share: float, workers: int, prefetch: int, cpus: float | None
) -> float:
    """Return the mean step of the loop, s."""
    run = loop(
        (making, spread),
        workers,
        prefetch,
        own,
        batches=BATCHES,
        cpus=cpus,
        cpu_share=cpu_share,
        consumer_cpus=OWN_CPUS,
        consumer_share=OWN_SLOWS,
    )
    return float(run.step.mean())
