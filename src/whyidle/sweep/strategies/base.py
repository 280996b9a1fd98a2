"""What a strategy is: told which cells there are, it says which one to run next.

A strategy is a pure function of the cells so far: it remembers nothing, so that a sweep that was interrupted goes on as
it would have. Which is why a cell that was interrupted is asked for again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from whyidle.errors import WhyIdleError
from whyidle.model.trial import FINISHED, Cell, Params
from whyidle.sweep.parameters import Parameter


@dataclass(frozen=True, slots=True)
class Machine:
    """What the jobs of a sweep have to themselves; None is not known."""

    cpus: float | None = None  # that one job may use, by its affinity and its cgroup
    ranks: int = 1  # training processes of a job, which share these CPUs
    memory_bytes: int | None = None  # of the host
    shm_bytes: int | None = None  # of /dev/shm, through which workers hand over batches

    @property
    def cpus_per_rank(self) -> float | None:
        """Return the CPUs that one training process has for itself and its workers."""
        return None if self.cpus is None else self.cpus / max(self.ranks, 1)


class Strategy(ABC):
    """Which cells of a sweep are run, and in which order."""

    name: ClassVar[str]  # as `--strategy` has it

    def __init__(self, parameters: Sequence[Parameter], machine: Machine) -> None:
        self.parameters = tuple(parameters)
        self.machine = machine

    @property
    @abstractmethod
    def most_cells(self) -> int:
        """Return how many cells it asks for at most."""

    @abstractmethod
    def following(self, cells: Sequence[Cell], running: Sequence[Params]) -> Params | None:
        """Return the cell to run next; None where there is none, or none before those that run have ended."""

    @abstractmethod
    def why(self, cells: Sequence[Cell]) -> str:
        """Return why it ended, and what that tells of the job: whole sentences."""


class Search(Strategy):
    """A strategy that looks for the best value of one parameter, one job at a time; all others have one value."""

    usual: ClassVar[str]  # name of that parameter
    word: ClassVar[str]  # in its name, where several are given
    least: ClassVar[int]  # value that makes sense

    def __init__(self, parameters: Sequence[Parameter], machine: Machine) -> None:
        super().__init__(parameters, machine)
        chosen = self._chosen()
        self.parameter = chosen.name
        self.fixed = {other.name: other.values[0] for other in parameters if other.name != chosen.name}
        self.given = {self._number(text): text for text in chosen.values}

    def following(self, cells: Sequence[Cell], running: Sequence[Params]) -> Params | None:
        """Return the cell to try next; None while one runs."""
        value = None if running else self.next_value(self.tried(cells))
        return None if value is None else {**self.fixed, self.parameter: self.given.get(value, str(value))}

    @abstractmethod
    def next_value(self, tried: Mapping[int, Cell]) -> int | None:
        """Return the value to try next, None at the end."""

    def tried(self, cells: Sequence[Cell]) -> dict[int, Cell]:
        """Return what is finished of this search, by value, least first."""
        found = {}
        for cell in cells:
            value = cell.params.get(self.parameter, "")
            others = {name: text for name, text in cell.params.items() if name != self.parameter}
            if cell.status in FINISHED and value.strip().isdecimal() and others == self.fixed:
                found[int(value)] = cell
        return dict(sorted(found.items()))

    def _chosen(self) -> Parameter:
        """Return the parameter that is searched."""
        named = [p for p in self.parameters if self.word in plain(p.name)]
        found = list(self.parameters) if len(self.parameters) == 1 else named
        if len(found) != 1:
            raise WhyIdleError(
                f"--strategy {self.name} looks for the best value of one parameter: none or several are named for it",
                f"name it: -p {self.usual}",
            )
        for other in self.parameters:
            if other.name != found[0].name and len(other.values) != 1:
                raise WhyIdleError(
                    f"--strategy {self.name} changes only {found[0].name}: {other.name} has {len(other.values)} values",
                    f"give {other.name} one value, or leave out --strategy to try all combinations",
                )
        return found[0]

    def _number(self, text: str) -> int:
        if not text.strip().isdecimal() or int(text) < self.least:
            raise WhyIdleError(
                f"--strategy {self.name} takes whole numbers from {self.least} on: {self.parameter} has {text!r}",
                f"for example -p {self.parameter}={self.least},{max(2 * self.least, 4)}",
            )
        return int(text)


def plain(name: str) -> str:
    """Return the name of a parameter as settings are called: "loader:num-workers" is num_workers."""
    return name.rpartition(":")[2].replace("-", "_").lower()


def measured(tried: Mapping[int, Cell]) -> dict[int, Cell]:
    """Return those cells that work and of which it is known how long a step takes."""
    return {value: cell for value, cell in tried.items() if cell.status in {"ok", "timed out"} and step_of(cell) > 0}


def step_of(cell: Cell) -> float:
    """Return the mean step, s; 0 where it was not measured."""
    mean = cell.step_time_mean_s
    return mean.likely if mean is not None and math.isfinite(mean.likely) else 0.0
