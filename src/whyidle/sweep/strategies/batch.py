"""The batch size: doubled for as long as that is worth it and the memory suffices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.recommend import filled, is_full
from whyidle.sweep.strategies.base import Machine, Search, measured

START: Final = 8  # samples, where nobody says (judgement: fits nearly everywhere)
# More throughput per doubling: below it a larger batch buys little, and may learn otherwise (judgement).
WORTH: Final = 0.05
FULL: Final = 0.85  # of the device's memory: twice the batch does not fit; kineto's tb_plugin warns at 90%
MOST: Final = 20  # cells: a million times the first


class Batch(Search):
    """Doubles until it gains less than 5% or memory is full; where that was too much, the middle is tried once.

    One value given is where it begins; of several only those are tried.
    """

    name = "batch"
    usual = "batch_size"
    word = "batch"
    least = 1

    def __init__(self, parameters: Sequence[Parameter], machine: Machine) -> None:
        super().__init__(parameters, machine)
        self.start = min(self.given, default=START)

    @property
    def most_cells(self) -> int:
        """Return how many doublings there can be, with the first and a middle."""
        return min(MOST, len(self._path()) + 1)

    def next_value(self, tried: Mapping[int, Cell]) -> int | None:
        """Return the double of the last, the middle once one was too much, None at the end."""
        if not tried:
            return self.start
        works, above = self._ends(tried)
        if not works or len(tried) >= MOST or filled(tried[works]) >= FULL or _saturated(tried, works):
            return None
        if above is None:
            return self._double(works)
        return self._between(works, above) if set(tried) <= self._path() else None

    def why(self, cells: Sequence[Cell]) -> str:
        """Return what ended the doubling."""
        tried = self.tried(cells)
        works, above = self._ends(tried)
        if not works:
            return self._never_worked(tried)
        if above is not None:
            return f"{works} is the largest batch that works: at {above} it {_failure(tried[above])}."
        gained = gain(tried, works)
        if gained is not None and gained.likely < WORTH:
            return (
                f"From {_before(tried, works)} to {works} throughput changes by {gained.likely:+.1%} per doubling "
                f"({gained.low:+.1%} to {gained.high:+.1%}): below +{WORTH:.0%} it is not doubled again."
            )
        if filled(tried[works]) >= FULL:
            return f"At {works} the device's memory is {filled(tried[works]):.0%} full: twice that does not fit."
        if self._double(works) is None:
            return f"{works} is the largest value that was given."
        return f"{works} is the largest that was tried."

    def _never_worked(self, tried: Mapping[int, Cell]) -> str:
        if not tried:
            return "No batch size was tried."
        value, cell = next(iter(tried.items()))
        smaller = f": begin with less, -p {self.parameter}={value // 2}" if value > 1 else ""
        return f"At {value} already it {_failure(cell)}{smaller}."

    def _ends(self, tried: Mapping[int, Cell]) -> tuple[int, int | None]:
        """Return the largest value that works, 0 for none, and the least beyond it, which fails or fills the memory."""
        works = max((value for value, cell in measured(tried).items() if not is_full(cell)), default=0)
        return works, min((value for value in tried if value > works), default=None)

    def _double(self, value: int) -> int | None:
        """Return the double; of given values the next from there on, or the largest."""
        if len(self.given) < 2:
            return 2 * value
        larger = sorted(number for number in self.given if number > value)
        return next((number for number in larger if number >= 2 * value), larger[-1] if larger else None)

    def _between(self, works: int, above: int) -> int | None:
        """Return the value in the middle, which was given if several were."""
        middle = (works + above) // 2
        among = [middle] if len(self.given) < 2 else self.given
        return min((v for v in among if works < v < above), key=lambda v: (abs(v - middle), v), default=None)

    def _path(self) -> set[int]:
        """Return all values that doubling leads to; what else was tried was the middle."""
        path: list[int] = [self.start]
        while len(path) < MOST and (larger := self._double(path[-1])) is not None:
            path.append(larger)
        return set(path)


def gain(tried: Mapping[int, Cell], value: int) -> Interval | None:
    """Return what throughput gains per doubling, from the value before to this one; None where there is none before."""
    before = _before(tried, value)
    if before is None:
        return None
    was, now = pace(before, tried[before]), pace(value, tried[value])
    doublings = math.log2(value / before)

    def per_doubling(ratio: float) -> float:
        return math.expm1(min(math.log(ratio) / doublings, MOST)) if ratio > 0 else -1.0

    low = now.low / was.high if was.high > 0 else 0.0
    high = now.high / was.low if was.low > 0 else math.inf
    return Interval(per_doubling(low), per_doubling(now.likely / was.likely), per_doubling(high))


def pace(value: int, cell: Cell) -> Interval:
    """Return samples per second: those that were counted, else the batch size over the mean step."""
    if cell.throughput is not None and cell.throughput_unit != "steps" and cell.throughput.likely > 0:
        return cell.throughput
    step = cell.step_time_mean_s
    assert step is not None, "is asked of measured cells only"
    return Interval(value / step.high, value / step.likely, value / step.low if step.low > 0 else math.inf)


def _before(tried: Mapping[int, Cell], value: int) -> int | None:
    return max((other for other in measured(tried) if other < value), default=None)


def _saturated(tried: Mapping[int, Cell], value: int) -> bool:
    gained = gain(tried, value)
    return gained is not None and gained.likely < WORTH


def _failure(cell: Cell) -> str:
    if is_full(cell):
        return f"fills {filled(cell):.0%} of the device's memory"
    match cell.status:
        case "out of memory":
            return "runs out of memory"
        case "no steps" | "ok":
            return "shows no steps"
        case "timed out":
            return "gives no number in the time it had"
    return "fails"
