"""The last minutes of one GPU: a ring that never grows, and what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Series
from whyidle.model.throttle import POWER_CAP, THERMAL
from whyidle.watch.moment import NS_PER_S
from whyidle.watch.reading import Reading

# Of a row of the ring, named as docs/curves.md names series.
COLUMNS = (
    *("utilization_percent", "memory_utilization_percent", "memory_used_bytes", "power_w", "sm_clock_mhz"),
    *("temperature_c", "throttle_reasons", "processes"),
)
UTILIZATION, CLOCK, REASONS = (COLUMNS.index(n) for n in ("utilization_percent", "sm_clock_mhz", "throttle_reasons"))
ZERO_PERCENT = 5.0  # below that a sample is one of an idle GPU, as `curve_zero_share` counts
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a window says; None where nothing was measured.

    Attributes:
        samples: in the window, with those in which the GPU did not answer.
        known: of these, with a utilization.
        busy_share: mean utilization.
        zero_share: of the known samples.
        clock_mhz: median where the GPU was busy.
        hot_share: of the busy samples, held back by heat or by the hardware.
        capped_share: of the busy samples, held back by the power limit.
    """

    samples: int = 0
    known: int = 0
    busy_share: float | None = None
    zero_share: float | None = None
    clock_mhz: float | None = None
    hot_share: float | None = None
    capped_share: float | None = None
    halves: tuple[float, float] | None = None  # mean utilization of the older and the newer known samples


class Window:
    """The last samples of a GPU.

    Args:
        capacity: samples that are kept.
        last_s: how far back it reaches, where samples came late or the machine slept.
    """

    def __init__(self, capacity: int, last_s: float = math.inf) -> None:
        self._last_ns = last_s * NS_PER_S
        self._time = np.zeros(capacity, np.int64)  # ns since 1970
        self._rows = np.full((capacity, len(COLUMNS)), np.nan)
        self._count = 0
        self.last: Reading | None = None  # of the last sample; None: it did not answer
        self.unknown_since: int | None = None  # ns since 1970

    def add(self, wall_ns: int, reading: Reading | None) -> None:
        """Take a sample; None where the GPU did not answer."""
        place = self._count % len(self._time)
        self._time[place] = wall_ns
        self._rows[place] = np.nan if reading is None else _row(reading)
        self._count += 1
        self.last = reading
        if reading is not None and reading.utilization_percent is not None:
            self.unknown_since = None
        elif self.unknown_since is None:
            self.unknown_since = wall_ns

    def __len__(self) -> int:
        return min(self._count, len(self._time))

    def _newest(self) -> Floats:
        """Return the rows that are not too old, oldest first. A wall clock that was set back makes none too old."""
        oldest = self._count % len(self._time) if self._count > len(self._time) else 0
        order = np.roll(np.arange(len(self)), -oldest)
        time = self._time[order]
        return self._rows[order[time[-1] - time <= self._last_ns]] if len(time) else self._rows[:0]

    def seen(self) -> Seen:
        """Return what it says."""
        rows = self._newest()
        utilization = rows[:, UTILIZATION]
        known = utilization[~np.isnan(utilization)]
        if not len(known):
            return Seen(len(rows))
        busy = rows[utilization >= ZERO_PERCENT]
        reasons = busy[:, REASONS]
        told = reasons[~np.isnan(reasons)].astype(np.int64)
        clocks = np.sort(busy[:, CLOCK][~np.isnan(busy[:, CLOCK])])
        return Seen(
            len(rows),
            len(known),
            float(known.sum()) / len(known) / 100,
            np.count_nonzero(known < ZERO_PERCENT) / len(known),
            float(clocks[len(clocks) // 2]) if len(clocks) else None,
            np.count_nonzero(told & THERMAL) / len(told) if len(told) else None,
            np.count_nonzero(told & POWER_CAP) / len(told) if len(told) else None,
            _halves(known / 100),
        )

    def series(self, node: str, device: int) -> tuple[Series, ...]:
        """Return it as a curve has it, oldest first; columns of which nothing is known are left out.

        Args:
            node: the host.
            device: index of the GPU.
        """
        order = np.argsort(self._time[: len(self)], kind="stable")
        time, first = np.unique(self._time[: len(self)][order], return_index=True)  # a wall clock may be set back
        rows = self._rows[: len(self)][order][first]
        return tuple(
            Series(name, node, time, rows[:, column].copy(), device)
            for column, name in enumerate(COLUMNS)
            if not np.isnan(rows[:, column]).all()
        )


def _halves(known: Floats) -> tuple[float, float] | None:
    middle = len(known) // 2
    if not middle:
        return None
    return float(known[:middle].sum()) / middle, float(known[middle:].sum()) / (len(known) - middle)


def _row(reading: Reading) -> list[Any]:
    values = (
        reading.utilization_percent,
        reading.memory_utilization_percent,
        reading.memory_used_bytes,
        reading.power_w,
        reading.sm_clock_mhz,
        reading.temperature_c,
        reading.throttle_reasons,
        None if reading.occupants is None else len(reading.occupants),
    )
    return [math.nan if value is None else value for value in values]
