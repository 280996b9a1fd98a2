"""Whether the few steps that were traced are like those of the whole run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.model.measurement import Measurement

SLOWER: Final = 0.25  # of the run's median step: a profiler alone rarely costs more
POINTS: Final = 0.10  # of the time, waiting for data


def not_typical(traced: Sequence[Measurement], logged: Sequence[Measurement]) -> Iterator[str]:
    """Yield a warning where steps of the trace take another time, or wait for data for another part of it."""
    trace, log = ({m.name: m.value for m in found if not m.subject} for found in (traced, logged))

    def both(name: str) -> tuple[float, float] | None:
        return (float(trace[name]), float(log[name])) if name in trace and name in log else None

    step, data = both("step_time_s"), both("data_wait_share")
    if step is not None and step[1] > 0 and abs(step[0] / step[1] - 1) > SLOWER:
        yield (
            f"the traced steps take {step[0] * 1e3:,.3g} ms, the median step of the run {step[1] * 1e3:,.3g} ms: what "
            "the trace shows of the GPU may not be typical, or the profiler slowed the job down."
        )
    if data is not None and abs(data[0] - data[1]) > POINTS:
        yield (
            f"the traced steps wait for data {data[0]:.0%} of the time, the run {data[1]:.0%}: what the trace shows of "
            "waiting for data is not typical."
        )
