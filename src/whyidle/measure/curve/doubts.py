"""What a person has to know of a recording of curves: what it lacks, and where it contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.measure.curve.activity import activity
from whyidle.measure.curve.busy import silent, stuck
from whyidle.measure.curve.gpus import Recorded
from whyidle.measure.curve.shape import LEAST, Shape
from whyidle.model.measurement import Measurement
from whyidle.model.times import span

UNKNOWN: Final = 0.05  # of the time: gaps that are told
NAMED: Final = 3  # GPUs that a warning names
UTILIZED: Final = 90.0  # percent, mean
HARDLY: Final = 0.05  # tensor activity, while
LITTLE: Final = 0.3  # SM activity
NONE_LOGGED: Final = 0.01  # of step: a log that says that nothing waits for data


def warnings(told: Recorded, shapes: Sequence[Shape]) -> Iterator[str]:
    """Yield what was not measured, GPUs that share it once."""
    measured = {one.gpu.subject for one in shapes}
    whole = {(one.gpu.node, one.gpu.device) for one in shapes}  # instances of a split GPU stand for it
    silent = [gpu.subject for gpu in told.gpus if gpu.subject not in measured and (gpu.node, gpu.device) not in whole]
    if silent:
        yield f"{_names(silent)}: utilization was not recorded (a GPU that is split has none): unknown, not zero."
    gaps = [one for one in shapes if one.samples.gap_s > UNKNOWN * (one.samples.total_s + one.samples.gap_s)]
    if gaps:
        worst = max(gaps, key=lambda one: one.samples.gap_s)
        yield (
            f"{_names([one.gpu.subject for one in gaps])}: {_gaps(worst.samples.gaps)} in the recording, "
            f"{span(worst.samples.gap_s)} at most without a sample. Nothing is known of that time."
        )
    short = [one.gpu.subject for one in shapes if 1 < len(one.samples) < LEAST]
    if short:
        yield f"{_names(short)}: fewer than {LEAST} samples, which have no shape."


def contradictions(told: Recorded, shapes: Sequence[Shape], measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield two counters that cannot both mean what they seem to."""
    frozen = [one.gpu.subject for one in shapes if one.source == "utilization_percent" and stuck(one.gpu, one.samples)]
    if frozen:
        yield (
            f"{_names(frozen)}: GR_ENGINE_ACTIVE stays at 0 while utilization is above 10%: the profiling counters do "
            "not count on this host (another profiler holds them, or the exporter cannot read them). They are ignored."
        )
    measured = {one.gpu.subject for one in shapes}
    dead = [gpu.subject for gpu in told.gpus if gpu.subject not in measured and silent(gpu)]
    if dead:
        yield (
            f"{_names(dead)}: GR_ENGINE_ACTIVE stays at 0 while other counters show that the GPU works: it does not "
            "count on this host, and nothing else tells how busy the GPU is."
        )
    for one in shapes:
        if one.gpu.subject in frozen or one.samples.mean < UTILIZED:
            continue
        found = activity(one)
        parts = found.shares if found else {}
        sm, tensor = parts.get("sm_active_share", 1.0), parts.get("tensor_active_share", 1.0)
        if sm < LITTLE or tensor < HARDLY:
            what = f"multiprocessors work in {sm:.0%}" if sm < LITTLE else f"tensor cores work in {tensor:.0%}"
            yield (
                f"Utilization of {_names([one.gpu.subject])} is {one.samples.mean:.0f}%, but {what} of the cycles: it "
                "only says that some kernel ran."
            )
            break
    m = {item.name: item.value for item in measurements if not item.subject}
    if float(m.get("curve_data_wait_share", 1.0)) < NONE_LOGGED and m.get("curve_dip_event") == "checkpoint":
        yield "The trainer's timer of waits for data says none: it does not cover checkpoints."


def _gaps(count: int) -> str:
    return "a gap" if count == 1 else f"{count:,} gaps"


def _names(subjects: Sequence[str]) -> str:
    more = f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else ""
    return ", ".join(re.sub(r"\bgpu (?=\d)", "GPU ", one) for one in subjects[:NAMED]) + more
