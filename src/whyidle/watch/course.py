"""How busy a GPU was since the watch began, in memory that never grows: the longer it runs, the longer its parts."""

from __future__ import annotations

import math

import numpy as np

from whyidle.model.watch_history import Utilization

PARTS = 480  # a screen shows no more


class Course:
    """The whole watch of one GPU.

    Args:
        start_s: when it began, by the clock of whoever calls.
        part_s: how long a part is at first: the interval between two samples.
    """

    def __init__(self, start_s: float, part_s: float) -> None:
        self._start_s, self._part_s = start_s, part_s
        self._used = 0
        self._known = np.zeros(PARTS)  # s of each part that are known
        self._busy = np.zeros(PARTS)  # of these, busy
        self._low = np.full(PARTS, np.inf)
        self._high = np.full(PARTS, -np.inf)

    def add(self, now_s: float, passed_s: float, busy_share: float | None) -> None:
        """Take a sample that stands for the time since the one before; None: nobody knows."""
        place = self._place(now_s)
        while place >= PARTS:
            self._fold()
            place = self._place(now_s)
        self._used = max(self._used, place + 1)
        if busy_share is None:
            return
        skipped = slice(self._place(now_s - passed_s) + 1, place)  # where samples come more slowly than was asked
        self._add(skipped, self._part_s, busy_share)
        left = passed_s - self._part_s * max(place - skipped.start, 0)
        self._add(slice(place, place + 1), left if left > 0 else self._part_s, busy_share)

    def _place(self, now_s: float) -> int:
        return int(max(now_s - self._start_s, 0.0) / self._part_s)

    def _add(self, places: slice, weight: float, share: float) -> None:
        self._known[places] += weight
        self._busy[places] += weight * share
        self._low[places] = np.minimum(self._low[places], share)
        self._high[places] = np.maximum(self._high[places], share)

    def _fold(self) -> None:
        """Make each two parts one, so that there is room for as much time again."""
        half = PARTS // 2
        for column, joined, empty in (
            (self._known, np.add, 0.0),
            (self._busy, np.add, 0.0),
            (self._low, np.minimum, math.inf),
            (self._high, np.maximum, -math.inf),
        ):
            column[:half] = joined(column[0::2], column[1::2])
            column[half:] = empty
        self._part_s *= 2
        self._used = (self._used + 1) // 2

    def utilization(self) -> Utilization:
        """Return it."""
        used = slice(0, self._used)
        known = self._known[used] > 0
        mean = np.full(self._used, np.nan)
        mean[known] = self._busy[used][known] / self._known[used][known]
        low, high = (np.where(known, column[used], np.nan) for column in (self._low, self._high))
        return Utilization(self._part_s, mean, low, high)
