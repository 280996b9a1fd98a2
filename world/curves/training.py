"""A job of minutes to an hour, step by step: what each GPU does when. Ranks meet at the end of each step.

A step of a rank: it waits for its batch (idle), computes, and spins in a collective until the last rank is there
(busy, by NVML, with hardly a multiprocessor at work). A pause after a step keeps all ranks idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from world.curves.signal import Floats, Signal, joined

SPIN_SM = 0.06  # SM activity of a collective that waits: a few blocks on over 100 multiprocessors


@dataclass(frozen=True)
class Training:
    """What a job does. Times in s; n steps, g GPUs of which each is a rank."""

    seconds: float  # from the start of the recording to its end
    startup_s: float
    data: Floats  # (n, g): waiting for the batch
    compute: Floats  # (n, g)
    pause: Floats  # (n,): after the step
    paused_by: Mapping[int, str] = field(default_factory=dict)  # step -> checkpoint or evaluation
    density: float = 1.0  # share of the computing in which a kernel runs
    sm: float = 0.85  # SM activity while a kernel runs
    tensor: float = 0.45  # tensor pipe activity while a kernel runs
    stops_s: float | None = None  # no work from then on, and memory is held
    turns_s: float | None = None  # from then on: clock, memory and density are those of `after`
    turned: tuple[int, ...] = ()  # the GPUs that turn
    clock: float = 0.97  # of the highest
    clock_after: float = 0.97
    memory: float = 0.7  # of what there is
    memory_after: float = 0.7
    density_after: float | None = None
    reason: int = 0  # NVML's clocks event reasons, and after the turn
    reason_after: int = 0

    @property
    def gpus(self) -> int:
        return int(self.data.shape[1])

    @cached_property
    def step_s(self) -> Floats:
        """Return how long each step takes without its pause, (n,)."""
        return np.asarray((self.data + self.compute).max(axis=1))

    @cached_property
    def starts_s(self) -> Floats:
        """Return when each step starts, (n,)."""
        return self.startup_s + np.concatenate(([0.0], np.cumsum(self.step_s + self.pause)[:-1]))

    @property
    def ends_s(self) -> float:
        return self.seconds if self.stops_s is None else min(self.stops_s, self.seconds)

    @property
    def steps(self) -> int:
        """Return how many steps are finished within the recording."""
        return int(np.searchsorted(self.starts_s + self.step_s, self.ends_s))

    def busy(self, gpu: int) -> Signal:
        """Return the share of each moment in which a kernel runs."""
        return self._signal(gpu, self._density(gpu), 1.0)

    def sm_active(self, gpu: int) -> Signal:
        return self._signal(gpu, self._density(gpu) * self.sm, SPIN_SM)

    def tensor_active(self, gpu: int) -> Signal:
        return self._signal(gpu, self._density(gpu) * self.tensor, 0.0)

    def part(self, name: str, gpu: int) -> float:
        """Return the share of the recording that a GPU spends in data, compute, spin, pause, startup or held."""
        parts = {"startup": 0, "data": 1, "compute": 2, "spin": 3, "pause": 4, "held": 5}
        durations, which = self._pieces(gpu)
        whole = joined(durations, (which == parts[name]).astype(np.float64), self.ends_s)
        if name == "held":
            return 1 - self.ends_s / self.seconds
        return whole.mean * self.ends_s / self.seconds

    def has_turned(self, gpu: int, time: Floats) -> NDArray[np.bool_]:
        """Say at which times what `after` tells holds for this GPU."""
        return (time >= (np.inf if self.turns_s is None else self.turns_s)) & (gpu in self.turned)

    def _density(self, gpu: int) -> Floats:
        after = self.density if self.density_after is None else self.density_after
        return np.where(self.has_turned(gpu, self.starts_s), after, self.density)

    def _pieces(self, gpu: int) -> tuple[Floats, NDArray[np.int64]]:
        data, compute = self.data[:, gpu], self.compute[:, gpu]
        pieces = np.stack((data, compute, self.step_s - data - compute, self.pause), axis=1)
        which = np.tile(np.arange(1, 5), len(pieces))
        return np.concatenate(([self.startup_s], np.maximum(pieces, 0.0).ravel())), np.concatenate(([0], which))

    def _signal(self, gpu: int, compute: Floats, spin: float) -> Signal:
        durations, _ = self._pieces(gpu)
        none = np.zeros_like(compute)
        levels = np.stack((none, compute, np.full_like(compute, spin), none), axis=1).ravel()
        work = joined(durations, np.concatenate(([0.0], levels)), self.ends_s)
        if self.ends_s >= self.seconds:
            return work
        return Signal(np.append(work.edges, self.seconds), np.append(work.level, 0.0))
