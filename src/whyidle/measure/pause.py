"""Do checkpoints, evaluation or the allocator stop the training?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.model.evidence import Kind
from whyidle.model.measurement import Measurement


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of saving and evaluating, and the calls that allocate device memory in steady state."""
    t = a.t
    for name in ("checkpoint", "evaluation"):
        index = a.host.slices[name]
        if len(t.of_kind(Kind.RANGE)) or len(t.of_kind(Kind.PYTHON)):
            yield Measurement(f"{name}_share", a.host_share(index), locations=a.host_places(index))
    work = a.launched_inside(a.host.slices["evaluation"])
    yield Measurement("evaluation_busy_share", a.device_share(work))
    calls = t.host_like(names.DEVICE_ALLOCATION, Kind.RUNTIME)
    start = t.host.start[calls]
    low, high = t.whole_window
    if a.steps > 1:  # the first step fills the caching allocator's pool; that is not thrash
        later = calls[(start >= t.steps.end[0]) & a.in_steps(start)]
        yield Measurement("alloc_calls_per_step", len(later) / (a.steps - 1))
    elif a.steps:
        return
    else:  # without steps: what goes on in every quarter but the first is no filling either (judgement)
        quarter = (start - low) * 4 // max(high - low, 1)
        later = calls[(quarter >= 1) & np.isin((1, 2, 3), quarter).all()]
    yield Measurement("alloc_lost_share", a.idle_inside("allocator", later), locations=a.host_places(later))
