"""A cell's run directory as a sweep reads it: the steps that count, and what was measured around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from whyidle.compare.pace import pace_of
from whyidle.compare.warm_up import warm_up
from whyidle.errors import WhyIdleError
from whyidle.judge import measured_of
from whyidle.measure import Measured
from whyidle.model.evidence import Floats64, Run
from whyidle.read import load, load_watched

MOST_DROPPED: Final = 0.5  # of the steps


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What a cell's run directory holds; `seconds` are all steps, in order."""

    run: Run
    measured: Measured
    seconds: Floats64

    @property
    def steady(self) -> Floats64:
        """Return the steps after the warm-up, s.

        Batches that workers had ready when the training began come faster than they are made: a queue of
        num_workers * prefetch_factor batches, twice (docs/method.md, search with few probes). They are no throughput.
        """
        settings = self.measured.settings
        queued = 2 * _whole(settings.get("num_workers")) * _whole(settings.get("prefetch_factor"))
        return self.seconds[dropped(len(self.seconds), queued) :]


def dropped(steps: int, queued: int) -> int:
    """Return how many of so many steps are dropped: the usual warm-up, and what was queued, up to half of them."""
    return max(warm_up(steps), min(queued, int(steps * MOST_DROPPED)))


def recorded(cell: Path, *, traces: bool = True) -> Recorded | None:
    """Return what is there of a cell that runs or has run; None as long as nothing can be read.

    Args:
        cell: its folder.
        traces: read what the profiler recorded, too; a look at a cell that runs does without, if it can.
    """
    nodes = sorted(path.parent for path in cell.glob("node-*/node.json"))
    if not nodes:
        return None
    try:
        run = load(nodes) if traces else load_watched(nodes)
        if not run.logs and not traces:  # only traces tell of steps
            run = load(nodes)
    except WhyIdleError:  # nothing is in there yet
        return None
    measured = measured_of(run)
    pace = pace_of(run, measured)
    return Recorded(run, measured, np.empty(0) if pace is None else pace.seconds)


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
