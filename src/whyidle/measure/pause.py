"""Do checkpoints, evaluation or the allocator stop the training?"""

from __future__ import annotations

from collections.abc import Iterator

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
    calls = t.host_like(names.DEVICE_ALLOCATION, Kind.RUNTIME)
    start = t.host.start[calls]
    low, high = t.whole_window
    if a.steps > 1:  # the first step fills the caching allocator's pool; that is not thrash
        later = calls[(start >= t.steps.end[0]) & a.in_steps(start)]
        yield Measurement("alloc_calls_per_step", len(later) / (a.steps - 1))
    elif a.steps:
        return
    else:  # without steps: what goes on from the first quarter to the last is no filling either
        quarter = (high - low) // 4
        goes_on = bool((start >= high - quarter).any())
        later = calls[(start >= low + quarter) & goes_on]
    yield Measurement("alloc_lost_share", a.idle_inside("allocator", later), locations=a.host_places(later))
