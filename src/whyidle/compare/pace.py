"""How long each step of a run took: the series that two runs are compared by.

By the log of a job that was watched, else by a trace, else by what a trainer printed. Of several ranks it is the one
whose mean step is longest. Placeholder of the integration branch: signatures only.
"""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.measure import Measured
from whyidle.model.evidence import Floats64, Run


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """Steps of one run, in order, all of them: nothing is dropped yet."""

    seconds: Floats64
    source: str  # "watched steps", "ProfilerStep", "range train_step", "trainer log"
    rank: int | None = None

    @property
    def steady(self) -> Floats64:
        """Return the steps after the warm-up."""
        raise NotImplementedError


def pace_of(run: Run, measured: Measured) -> Pace | None:
    """Return the steps of a run; None where nothing tells of steps."""
    raise NotImplementedError
