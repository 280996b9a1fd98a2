"""What a sweep may take: money, time, cells. Pure: who asks says what the time is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from whyidle.errors import WhyIdleError
from whyidle.render.words import duration, money

HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Rate:
    """What GPUs cost; usd_per_gpu_hour is None where no price is known."""

    usd_per_gpu_hour: float | None = None
    source: str = ""
    gpus: int | None = None  # that a cell is charged for; None: none was seen

    def usd(self, seconds: float, gpus: int | None = None) -> float | None:
        """Return what a cell of so many seconds costs, in US dollars."""
        if self.usd_per_gpu_hour is None:
            return None
        return (gpus or self.gpus or 1) * self.usd_per_gpu_hour * seconds / HOUR_S


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a whole sweep; None is none."""

    max_usd: float | None = None
    timeout_s: float | None = None
    max_cells: int | None = None  # of this and earlier calls

    def check(self, rate: Rate) -> None:
        """Refuse limits that cannot be.

        Raises:
            WhyIdleError: says which.
        """
        for flag, value in (
            ("--max-cost", self.max_usd),
            ("--timeout", self.timeout_s),
            ("--max-cells", self.max_cells),
        ):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise WhyIdleError(f"{flag} is more than 0, not {value:g}", "leave it out for no limit")
        if self.max_usd is not None and not rate.usd_per_gpu_hour:
            raise WhyIdleError("--max-cost needs to know what a GPU costs", "--price 2.60")

    def left_s(self, rate: Rate, spent_usd: float, spent_s: float, running: int) -> float:
        """Return for how long cells may go on, all that run together; infinite without a limit.

        Args:
            rate: what a cell costs.
            spent_usd: so far, with what the running cells have cost.
            spent_s: since this call began.
            running: cells, 1 or more: those that run, with the one that is about to.
        """
        left = math.inf if self.timeout_s is None else self.timeout_s - spent_s
        per_s = (rate.usd(1.0) or 0.0) * running
        if self.max_usd is not None and per_s > 0:
            left = min(left, (self.max_usd - spent_usd) / per_s)
        return left

    def refuses(self, left_s: float, longest_s: float, cells: int) -> str:
        """Return why no further cell is begun; empty where one may be.

        Args:
            left_s: for which cells may go on.
            longest_s: that a cell has taken so far; 0: none has ended.
            cells: that were begun.
        """
        if self.max_cells is not None and cells >= self.max_cells:
            return f"--max-cells {self.max_cells} is reached"
        if left_s > longest_s:
            return ""
        said = self.said()
        return (
            f"{said} is used up" if left_s <= 0 else f"{said}: another cell does not fit in the {duration(left_s)} left"
        )

    def said(self) -> str:
        """Return the limits of time and money as they were given."""
        parts = [f"--max-cost {money(self.max_usd)}" if self.max_usd is not None else ""]
        parts += [f"--timeout {duration(self.timeout_s)}" if self.timeout_s is not None else ""]
        return " ".join(filter(None, parts))

    def most_usd(self, rate: Rate, cells: int, cell_time_s: float, slots: int) -> float | None:
        """Return the most that a sweep can cost; None without a price."""
        cells = min(cells, self.max_cells or cells)
        bounds = [rate.usd(cells * cell_time_s), self.max_usd]
        if self.timeout_s is not None:
            bounds.append(rate.usd(self.timeout_s * slots))
        known = [bound for bound in bounds if bound is not None]
        return min(known) if rate.usd_per_gpu_hour is not None and known else None
