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
    for name, pattern in (("checkpoint_share", names.CHECKPOINT), ("evaluation_share", names.EVALUATION)):
        index = t.host_like(pattern, Kind.RANGE, Kind.PYTHON)
        if len(t.of_kind(Kind.RANGE)) or len(t.of_kind(Kind.PYTHON)):
            yield Measurement(name, a.host_share(index), locations=a.host_places(index))
    calls = t.host_like(names.DEVICE_ALLOCATION, Kind.RUNTIME)
    if a.steps > 1:  # the first step fills the caching allocator's pool; that is not thrash
        later = calls[(t.host.start[calls] >= t.steps.end[0]) & a.in_steps(t.host.start[calls])]
        count = len(later) / (a.steps - 1)
        yield Measurement("alloc_calls_per_step", count, locations=a.host_places(later))
        yield Measurement("alloc_lost_share", a.idle_inside("allocator", later))
