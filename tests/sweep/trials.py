"""Cells that a strategy is told of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell
from whyidle.sweep.strategies import Strategy


@dataclass(frozen=True)
class Given:
    """A parameter as -p gives it."""

    name: str
    values: tuple[str, ...] = ()
    present: str | None = None


def about(value: float, part: float = 0.01) -> Interval:
    return Interval(value * (1 - part), value, value * (1 + part))


def ran(params: dict[str, str], step: float, **more: object) -> Cell:
    """A cell that works, with steps of so many seconds."""
    return Cell(params, "ok", **{"step_time_mean_s": about(step), "throughput": about(1 / step), **more})


def loaded(workers: int, own: float, making: float, floor: float = 0.0, **more: object) -> Cell:
    """A cell whose step is the longer of the training's own work and what the workers take for a batch."""
    step = max(own, making / workers, floor) if workers else own + making
    measured = {"data_wait_share": 1 - own / step, "fetch_s": making, "fetch_cpu_s": making, "fetch_cv": 0.1} | more
    return ran({"num_workers": str(workers)}, step, **measured)


def asked(search: Strategy, measure: Callable[[dict[str, str]], Cell], most: int = 50) -> list[Cell]:
    """What a strategy asks for, until it has no more."""
    cells: list[Cell] = []
    while (params := search.following(cells, ())) is not None:
        assert len(cells) < most, "it does not end"
        cells.append(measure(dict(params)))
    return cells


def values(cells: Sequence[Cell], name: str) -> list[int]:
    return [int(cell.params[name]) for cell in cells]
