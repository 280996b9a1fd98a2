"""How long each step of a run took: the series that two runs are compared by.

By the log of a job that was watched, else by its trace, else by what a trainer printed. Of several ranks it is the one
whose mean step is longest: the others wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whyidle.compare.warm_up import warm_up
from whyidle.measure import Measured
from whyidle.measure.loss import beside, unrolled
from whyidle.measure.step_log import ranks
from whyidle.measure.step_log.watch import watch
from whyidle.model.evidence import Curve, Floats64, Ints, Run, Series
from whyidle.model.intervals import EMPTY

NS: Final = 1e9
Unit: TypeAlias = Literal["step", "token", "sample"]
PRINTED_BY: Final = "trainer log"
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
    number: Ints | None = None  # in its run, of each step; of a log's line that of the last step it tells of
    uncut: Pace | None = None  # the whole of it, where this is a part

    @property
    def interval(self) -> int:
        """Return how many steps each value is the mean of: a trainer may print every tenth."""
        return 1 if self.number is None else interval_of(self.number)

    @property
    def span(self) -> tuple[int, int] | None:
        """Return the numbers of the first and the last step; None where they are not known."""
        if self.number is None or not len(self.number):
            return None
        return max(int(self.number[0]) - self.interval + 1, 1), int(self.number[-1])

    def part(self, kept: NDArray[np.bool_]) -> Pace:
        """Return some of the steps, which have numbers."""
        if self.number is None or kept.all():
            return self
        return replace(self, seconds=self.seconds[kept], number=self.number[kept], uncut=self.uncut or self)

    @property
    def dropped(self) -> int:
        """Return how many values the warm-up takes: those of its steps."""
        values = len(self.seconds)
        return min(-(-warm_up(values * self.interval) // self.interval), values)

    @property
    def steady(self) -> Floats64:
        """Return the steps after the warm-up."""
        return self.seconds[self.dropped :]


def interval_of(number: Ints) -> int:
    """Return how many steps lie between two of these, most often; one where there are no two."""
    return max(int(np.median(np.diff(number))), 1) if len(number) > 1 else 1


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
    for log, held in zip(run.logs, ranks.held_up(run.logs, nodes), strict=True):
        watched = watch(log, nodes.get(log.process.node), held)
        if watched is not None and watched.count:
            number = np.flatnonzero(watched.steps.kept) + 2  # the first step has no begin
            yield Pace(watched.steps.times / NS, watched.steps.source, log.process.rank, number=number)


def _traced(measured: Measured) -> Iterator[Pace]:
    for analysis in measured.analyses:
        steps = analysis.t.steps
        if len(steps):
            number = steps.number if steps.source == "ProfilerStep" else None  # others count from the trace's start
            yield Pace((steps.end - steps.start) / NS, steps.source or "", analysis.t.trace.rank, number=number)


def _printed(run: Run) -> Iterator[Pace]:
    """Yield what trainers printed, each column of times before any of rates."""
    columns = [(curve, series) for curve in run.curves if curve.step_log for series in curve.series]
    for name, per in PRINTED:
        found = [_column(curve, series, per) for curve, series in columns if series.name == name]
        found = [pace for pace in found if len(pace.seconds)]
        if found:
            yield from found
            return


def _column(curve: Curve, series: Series, per: Unit) -> Pace:
    """Return a column of a log; where it does not number its steps they are its lines."""
    told = np.isfinite(series.value) & (series.value > 0)
    value = series.value[told]
    step = beside(next((one for one in curve.series if one.name == "step"), None), series)[told]
    number = unrolled(step) if np.isfinite(step).all() else EMPTY
    if not len(number) or np.any(np.diff(number) <= 0):
        number = np.arange(1, len(value) + 1)
    return Pace(value if per == "step" else 1 / value, PRINTED_BY, per=per, number=number)
