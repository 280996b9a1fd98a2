"""Does torch.compile compile again in steady state? By what it compiles in steps after the first.

The first step of a recording may hold the first compilation, which every job pays once. Later ones are new versions of
code that was compiled before, or code that was not reached until then.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index
from whyidle.model.evidence import Kind
from whyidle.model.measurement import Measurement


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield what compiling costs after the first step; needs two steps, and host slices that would show it."""
    t = a.t
    if a.steps < 2 or not (len(t.of_kind(Kind.OP)) or len(t.of_kind(Kind.RANGE))):
        return
    rows, step = later(a)
    yield Measurement("recompile_steps", len(np.unique(step)))
    yield Measurement("recompile_share", a.idle_inside("compile", rows), locations=a.host_places(rows))
    # the last half of the steps that come after the first, rounded up
    last = rows[step > a.steps // 2]
    yield Measurement("recompile_late_share", a.idle_inside("compile", last), locations=a.host_places(last))
    versions = compiled_versions(a)
    if versions:
        yield Measurement("compiled_versions", versions)


def later(a: Analysis) -> tuple[Index, Index]:
    """Return the slices that compile in a step after the first, and the index of that step."""
    t = a.t
    rows = t.host_like(names.COMPILE, Kind.OP, Kind.RANGE, Kind.PYTHON)
    rows = rows[a.in_steps(t.host.start[rows])]
    step = np.searchsorted(t.steps.start, t.host.start[rows], "right") - 1
    return rows[step > 0], step[step > 0]


def compiled_versions(a: Analysis) -> int:
    """Return how many versions of one function torch.compile has made; 0 where its regions name none.

    "Torch-Compiled Region: 3/7" is the eighth version of function 3, since the job began.
    """
    found = [names.REGION.search(text) for text in a.t.trace.strings]
    return max((int(match[1]) + 1 for match in found if match), default=0)
