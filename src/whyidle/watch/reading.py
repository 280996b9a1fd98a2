"""What one look at the GPUs gives, whoever looked: NVML, nvidia-smi, or a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from whyidle.collect.nvml import Occupant

# Allocated memory from which on somebody holds a GPU: without any process the driver keeps up to 0.6 GiB to itself.
HELD_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine; None is not known."""

    index: int
    uuid: str = ""
    name: str = ""
    memory_bytes: int | None = None
    sm_clock_max_mhz: float | None = None
    power_limit_w: float | None = None
    mig: bool = False  # split into instances: NVML does not say how busy it is

    @property
    def key(self) -> str:
        """What tells it from others for good: its index changes when the driver is loaded without one before it."""
        return self.uuid or f"gpu {self.index}"


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU at one moment; None was not measured.

    Attributes:
        occupants: processes that have a context; None where they cannot be seen, which is not nobody.
        drawing: processes draw on it, asked where there is memory and no occupant; None is not known.
    """

    utilization_percent: float | None = None
    memory_utilization_percent: float | None = None
    memory_used_bytes: float | None = None
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    throttle_reasons: int | None = None
    occupants: tuple[Occupant, ...] | None = None
    drawing: bool | None = None

    @property
    def held(self) -> bool | None:
        """Whether somebody holds it: a process, or memory; None where neither can be seen."""
        if self.occupants:
            return True
        if self.memory_used_bytes is not None:
            return self.memory_used_bytes >= HELD_BYTES or (False if self.occupants is not None else None)
        return None if self.occupants is None else False


@dataclass(frozen=True, slots=True)
class Sample:
    """All GPUs at one moment.

    Attributes:
        state: "ok", or why nothing is known.
        gpus: all that were seen since the watch began, also those that do not answer now.
        readings: by `Gpu.key`, of those that answered.
    """

    state: str
    gpus: tuple[Gpu, ...] = ()
    readings: dict[str, Reading] | None = None

    def of(self, gpu: Gpu) -> Reading | None:
        """Return the reading of a GPU; None where it did not answer."""
        return (self.readings or {}).get(gpu.key)


class Source(Protocol):
    """Who looks at the GPUs."""

    name: str

    def sample(self, now_s: float) -> Sample:
        """Look, and wait for the answer 2 s at most; `now_s` is CLOCK_MONOTONIC."""

    def close(self) -> None:
        """Let go of the driver."""
