"""What does Optimizer.step cost: launches, idle time before them, and kernels that treat one tensor each?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.attribution import CODE
from whyidle.measure.launch import LONG_GAP
from whyidle.measure.rows import Index, among, distinct
from whyidle.model.evidence import Kind
from whyidle.model.measurement import Measurement


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield launches in Optimizer.step, what the GPU idles before them, and its kernels that treat one tensor each."""
    yield from name(a)
    steps = updates(a)
    if not a.steps or not len(a.t.launching) or not len(steps):
        return
    launched = a.launched_inside(steps)
    start, calls = a.t.host.start, distinct(a.t.launch[launched])
    places = a.host_places(steps)
    yield Measurement("optimizer_launches_per_step", a.per_step(start[calls]), locations=places)
    single = tensorwise(a)
    yield Measurement("optimizer_tensorwise_per_step", a.per_step(start[a.t.launch[single]]))
    yield Measurement("optimizer_tensorwise_share", a.device_share(single), locations=a.device_places(single))
    yield from before(a, launched)


def updates(a: Analysis) -> Index:
    """Return the ranges of Optimizer.step, but for those that run a backward pass inside."""
    return a.host.free_of_backward(a.t.host_like(names.OPTIMIZER_STEP, Kind.RANGE))


def tensorwise(a: Analysis) -> Index:
    """Return the kernels of Optimizer.step that treat one tensor each."""
    launched = a.launched_inside(updates(a))
    return launched[among(launched, a.t.device_like(names.TENSORWISE))]


def name(a: Analysis) -> Iterator[Measurement]:
    """Yield the class of the optimizer whose steps take the host longest; nothing where none is named."""
    h, steps = a.t.host, a.t.host_like(names.OPTIMIZER_NAME, Kind.RANGE)
    if len(steps):
        time = np.bincount(h.name[steps], weights=h.end[steps] - h.start[steps])
        match = names.OPTIMIZER_NAME.search(a.t.trace.strings[int(np.argmax(time))])
        yield Measurement("optimizer", match[1] if match else "")


def before(a: Analysis, launched: Index) -> Iterator[Measurement]:
    """Yield the idle time before these operations that is no host's: launch latency, and pauses between kernels."""
    total = {"launch_latency": 0, "kernel_gap": 0}
    for device in a.devices:
        p, gaps = device.pieces, device.gaps
        mine = (among(gaps.next_op, launched) & (gaps.span.lengths < LONG_GAP))[p.gap]
        for cause in total:
            rows = mine & (p.cause == CODE[cause])
            total[cause] += int((p.end - p.start)[rows].sum())
    yield Measurement("optimizer_latency_share", a.share(total["launch_latency"]))
    yield Measurement("optimizer_kernel_gap_share", a.share(total["kernel_gap"]))
