"""What curves that others recorded tell of a job's GPUs: how busy, and in which shape. One file per question.

The mean of a curve is the share of time in which some kernel ran, also where samples are too far apart to show steps;
its shape is a hypothesis, never a cause (docs/method.md, Curves).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from whyidle.measure.curve import limits, steps
from whyidle.measure.curve.busy import busy
from whyidle.measure.curve.dips import DIP, Dips
from whyidle.measure.curve.doubts import contradictions, warnings
from whyidle.measure.curve.gpus import Recorded, of_one_host, recorded
from whyidle.measure.curve.peers import correlated, lagging
from whyidle.measure.curve.samples import runs
from whyidle.measure.curve.shape import Shape, shape
from whyidle.measure.curve.whole import hosts, whole
from whyidle.model.evidence import Curve, Run, Value
from whyidle.model.finding import DeviceBusy, GpuCount
from whyidle.model.intervals import Intervals
from whyidle.model.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Curves:
    """What was measured of a run's curves."""

    curves: tuple[Curve, ...] = ()  # that were measured
    measurements: tuple[Measurement, ...] = ()
    devices: tuple[DeviceBusy, ...] = ()
    gpus: tuple[GpuCount, ...] = ()
    settings: tuple[tuple[str, Value], ...] = ()
    warnings: tuple[str, ...] = ()  # gaps, resets, units that do not fit: what a person has to know of the recording
    contradictions: tuple[str, ...] = ()  # two counters that cannot both be right
    # regular dips of each GPU that has them, by its file and number: ns from its first sample
    dips: Mapping[tuple[str, int | None], Intervals] = field(default_factory=dict)


def measure(run: Run) -> Curves:
    """Measure every curve of a run; nothing where it has none."""
    if not run.curves:
        return Curves()
    curves = of_one_host(run.curves)
    told = recorded(curves)
    step_s = steps.step_time(told.steps)
    shapes: list[Shape] = []
    for gpu in told.gpus:
        found = busy(gpu, shapes[-1].samples if shapes else None)
        if found is not None:
            shapes.append(shape(gpu, *found, step_s))
    lag, together = lagging(shapes), correlated(shapes)
    measurements = (
        *whole(shapes, told, lag, together),
        *limits.measure(shapes),
        *steps.measure(told.steps),
        *hosts(told.hosts),
    )
    return Curves(
        curves=curves,
        measurements=measurements,
        devices=tuple(_devices(shapes)),
        gpus=_models(told),
        warnings=(*told.warnings, *warnings(told, shapes)),
        contradictions=tuple(contradictions(told, shapes, measurements)),
        dips={(one.gpu.path, one.gpu.device): _dips(one, one.dips) for one in shapes if one.dips},
    )


def _dips(one: Shape, dips: Dips) -> Intervals:
    """Return when a GPU was in its dips: from half an interval before their samples to half of one after them."""
    first, last = runs((one.body.value < DIP) & dips.mask)
    time = one.body.time - one.samples.time[0]
    half = round(one.samples.interval_s * 1e9 / 2)
    return Intervals((time[first] - half).clip(0), time[last - 1] + half)


def _devices(shapes: Sequence[Shape]) -> Iterator[DeviceBusy]:
    for one in shapes:
        gpu, covered = one.gpu, one.samples.total_s
        device = -1 if gpu.device is None else gpu.device
        yield DeviceBusy(None, device, one.samples.mean / 100, covered, gpu.node, gpu.instance, gpu.gpus)


def _models(told: Recorded) -> tuple[GpuCount, ...]:
    """Return the GPUs by model, as far as the recording names them; an instance of one that is split is no GPU."""
    named = {(gpu.node, gpu.device): (str(gpu.facts["name"]), gpu.gpus) for gpu in told.gpus if "name" in gpu.facts}
    counts: Counter[str] = Counter()
    for name, count in named.values():
        counts[name] += count
    return tuple(GpuCount(name, count) for name, count in sorted(counts.items()))
