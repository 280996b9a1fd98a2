"""Stand-in of the branch that is built beside: the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from whyidle.errors import WhyIdleError
from whyidle.model.trial import Cell, Params
from whyidle.sweep.parameters import Parameter


@dataclass(frozen=True, slots=True)
class Machine:
    """What the jobs of a sweep have to themselves; None is not known."""

    cpus: float | None = None
    ranks: int = 1
    memory_bytes: int | None = None
    shm_bytes: int | None = None


class Strategy:
    """All combinations."""

    name = "grid"

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters = parameters

    def following(self, cells: Sequence[Cell], running: Sequence[Params]) -> Params | None:
        """Return what to try next; None: nothing now."""
        tried = [dict(cell.params) for cell in cells] + [dict(params) for params in running]
        names = [parameter.name for parameter in self._parameters]
        for values in product(*(parameter.values for parameter in self._parameters)):
            params = dict(zip(names, values, strict=True))
            if params not in tried:
                return params
        return None

    def why(self, cells: Sequence[Cell]) -> str:
        """Return why it ended."""
        return ""


def strategy(name: str, parameters: Sequence[Parameter], machine: Machine) -> Strategy:
    """Return the strategy of a name."""
    if name != "grid":
        raise WhyIdleError(f"no strategy is called {name!r}", "--strategy grid")
    return Strategy(parameters)
