"""All combinations of the values, in the order given."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from whyidle.errors import WhyIdleError
from whyidle.model.trial import FINISHED, Cell, Params
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.strategies.base import Machine, Strategy


class Grid(Strategy):
    """Every combination once; the last parameter changes fastest. Several may run at a time."""

    name = "grid"

    def __init__(self, parameters: Sequence[Parameter], machine: Machine) -> None:
        super().__init__(parameters, machine)
        for parameter in parameters:
            if not parameter.values:
                raise WhyIdleError(
                    f"{parameter.name} has no values to try",
                    f"-p {parameter.name}=VALUE,VALUE; --strategy workers and --strategy batch choose them",
                )
        names = [parameter.name for parameter in parameters]
        self.all = tuple(dict(zip(names, values, strict=True)) for values in product(*(p.values for p in parameters)))

    @property
    def most_cells(self) -> int:
        """Return the number of combinations."""
        return len(self.all)

    def following(self, cells: Sequence[Cell], running: Sequence[Params]) -> Params | None:
        """Return the first combination that neither is finished nor runs."""
        begun = {frozenset(cell.params.items()) for cell in cells if cell.status in FINISHED}
        begun |= {frozenset(params.items()) for params in running}
        return next((params for params in self.all if frozenset(params.items()) not in begun), None)

    def why(self, cells: Sequence[Cell]) -> str:
        """Return how many of the combinations were tried."""
        done = [dict(cell.params) for cell in cells if cell.status in FINISHED]
        tried, count = sum(params in done for params in self.all), len(self.all)
        return f"All {count} combinations were tried." if tried == count else f"{tried} of {count} were tried."
