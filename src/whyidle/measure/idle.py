"""How much of the window was the GPU idle, and by what cause?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure.analysis import Analysis
from whyidle.model.finding import CAUSES
from whyidle.model.measurement import Measurement


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the time base, busy and idle shares, and the idle share of each cause."""
    yield Measurement("window_s", a.device_window / len(a.devices) / 1e9)
    busy = sum(device.busy.total for device in a.devices)
    yield Measurement("gpu_busy_share", a.share(busy))
    yield Measurement("gpu_idle_share", 1 - a.share(busy))
    span = sum(int(device.busy.end[-1] - device.busy.start[0]) for device in a.devices if len(device.busy))
    yield Measurement("gpu_span_busy_share", busy / max(span, 1))
    yield Measurement("outside_span_share", 1 - a.share(span))
    for cause in CAUSES:
        yield Measurement(f"idle_{cause}_share", a.idle_share(cause), locations=a.places(cause))
    yield from step_times(a)


def step_times(a: Analysis) -> Iterator[Measurement]:
    """Yield how many steps there are and how long they take."""
    if a.steps:
        times = a.t.steps.times
        yield Measurement("steps", a.steps)
        yield Measurement("step_time_s", float(np.median(times)) / 1e9)
        yield Measurement("step_time_mean_s", float(np.mean(times)) / 1e9)
