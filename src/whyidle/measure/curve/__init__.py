"""What curves that others recorded tell of a job's GPUs: how busy, and in which shape. One file per question.

The mean of a curve is the share of time in which some kernel ran, also where samples are too far apart to show steps;
its shape is a hypothesis, never a cause (docs/method.md, Curves).
"""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.model.evidence import Curve, Run, Value
from whyidle.model.finding import DeviceBusy, GpuCount
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


def measure(run: Run) -> Curves:
    """Measure every curve of a run; nothing where it has none."""
    return Curves(curves=run.curves) if run.curves else Curves()
