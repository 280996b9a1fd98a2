"""How long each step of a run took: the series that two runs are compared by.

By the log of a job that was watched, else by its trace, else by what a trainer printed. Of several ranks it is the one
whose mean step is longest: the others wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from whyidle.compare.warm_up import warm_up
from whyidle.measure import Measured
from whyidle.measure.step_log import ranks
from whyidle.measure.step_log.watch import watch
from whyidle.model.evidence import Floats64, Run

NS: Final = 1e9
Unit: TypeAlias = Literal["step", "token", "sample"]
PRINTED: Final[tuple[tuple[str, Unit], ...]] = (
    ("step_time_s", "step"),
    ("tokens_per_s", "token"),
    ("samples_per_s", "sample"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """Steps of one run in order: nothing is dropped yet, but for steps that we held up ourselves."""

    seconds: Floats64  # of each step; per token or sample, where a trainer printed nothing else
    source: str  # what tells of steps: "Optimizer.step", "ProfilerStep", "trainer log"
    rank: int | None = None
    per: Unit = "step"

    @property
    def dropped(self) -> int:
        """Return how many steps the warm-up takes."""
        return warm_up(len(self.seconds))

    @property
    def steady(self) -> Floats64:
        """Return the steps after the warm-up."""
        return self.seconds[self.dropped :]


def pace_of(run: Run, measured: Measured) -> Pace | None:
    """Return the steps of a run; None where nothing tells of steps.

    Args:
        run: the evidence.
        measured: what was measured of it, as `judge.measured_of` returns.
    """
    for paces in (_watched(run, measured), _traced(measured), _printed(run)):
        found = list(paces)
        if found:
            return max(found, key=lambda pace: float(pace.seconds.mean()))
    return None


def _watched(run: Run, measured: Measured) -> Iterator[Pace]:
    nodes = {node.name: node for node in run.nodes}
    if not measured.watched.logs:
        return
    for log, beside in zip(run.logs, ranks.held_up(run.logs, nodes), strict=True):
        watched = watch(log, nodes.get(log.process.node), beside)
        if watched is not None and watched.count:
            yield Pace(watched.steps.times / NS, watched.steps.source, log.process.rank)


def _traced(measured: Measured) -> Iterator[Pace]:
    for analysis in measured.analyses:
        steps = analysis.t.steps
        if len(steps):
            yield Pace((steps.end - steps.start) / NS, steps.source or "", analysis.t.trace.rank)


def _printed(run: Run) -> Iterator[Pace]:
    """Yield what trainers printed, each column of times before any of rates."""
    logs = [series for curve in run.curves if curve.step_log for series in curve.series]
    for name, per in PRINTED:
        columns = [
            series.value[np.isfinite(series.value) & (series.value > 0)] for series in logs if series.name == name
        ]
        columns = [column for column in columns if len(column)]
        if columns:
            for column in columns:
                yield Pace(column if per == "step" else 1 / column, "trainer log", per=per)
            return
