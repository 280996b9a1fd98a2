"""What is said of a run by the curves that others recorded of its GPUs: the answer in numbers and in a sentence.

The mean of a curve is how busy a GPU was; its shape is a hypothesis. So a curve alone says how much and when, lists
what could be the cause, and names the measurement that tells. What it did not record is never healthy and never idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from whyidle.measure import Measured
from whyidle.measure.curve import Curves
from whyidle.model.evidence import Curve
from whyidle.model.finding import (
    HEALTHY_IDLE,
    MEDIUM,
    UTILIZED,
    WATCH,
    WHOLE,
    DeviceBusy,
    Finding,
    Prediction,
    Summary,
    gpu_count,
)
from whyidle.model.measurement import CURVE, CURVE_ACTIVITY, CURVE_LONG, Measurements
from whyidle.model.times import span
from whyidle.rules import all_rules

# A cause is never surer than this where only a curve tells of it (docs/method.md, Curves).
MOST_CONFIDENCE: Final = 0.6
FEWEST: Final = 5  # samples of a GPU: fewer are moments, no curve (judgement)
SHAPED: Final = 10  # samples: fewer say how busy a GPU was in them, and nothing of its job (method, Curves)
MOSTLY: Final = 0.5  # of the time that was sampled: where less of it holds a utilization, nobody can judge
BY_LOG: Final = frozenset({"curve.data_wait"})  # what a trainer printed, no curve
KINDS: Final = 2  # formats that a sentence names
NAMED: Final = 3  # GPUs or counters that a sentence names
NO_PREDICTION: Final = "a curve does not show what a fix would change"
NEXT: Final = f"`{WATCH}` records what the job does in that time."
SAME_PART: Final = (
    "but a step takes as long as it is from one sample to the next, so that all see the same part of it. "
    "Sample at another interval."
)
BUSY_IS_NOT_WORK: Final = "but a GPU that is busy need not get work done."


def summarize(summary: Summary, curves: Curves) -> Summary:
    """Return the summary with what curves tell added. What a trace or a log tells of the same stays."""
    m = Measurements(curves.measurements)
    known = m.get("curve_samples", 0.0) >= FEWEST and "curve_busy_share" in m
    busy = m.number("curve_busy_share") if known else None

    def number(name: str) -> float | None:
        return m.number(name) if name in m else None

    if curves.measurements:
        summary = replace(
            summary,
            curve_s=number("curve_s"),
            curve_interval_s=number("curve_interval_s"),
            curve_known_share=number("curve_known_share"),
        )
    if busy is not None:
        summary = replace(summary, curve_idle_share=1 - busy)
        if summary.utilization_mean_share is None:
            summary = replace(summary, utilization_mean_share=busy)
    if summary.steps is None and "curve_steps" in m:
        summary = replace(
            summary,
            steps=int(m.number("curve_steps")),
            steps_from="the trainer's log",
            step_time_s=number("curve_step_time_s"),
            step_time_mean_s=number("curve_step_time_mean_s"),
        )
    if summary.data_wait_share is None:
        summary = replace(summary, data_wait_share=number("curve_data_wait_share"))
    return summary


def said_in_reading(read: Sequence[Curve]) -> Iterator[str]:
    """Yield what had to be repaired or left out in files; what is said of several alike, once."""
    paths: dict[str, list[str]] = {}
    for curve in read:
        for warning in curve.warnings:
            paths.setdefault(warning.removeprefix(f"{curve.path}: "), []).append(curve.path)
    for warning, of in paths.items():
        yield f"{of[0]}{f' and {len(of) - 1:,} more files' if len(of) > 1 else ''}: {warning}"


def alone(summary: Summary, curves: Curves) -> Summary:
    """Return the summary of a run of which there are only curves: they tell of the GPU's time, too."""
    told = summarize(summary, curves)
    idle = told.curve_idle_share
    if idle is None:
        return told
    return replace(
        told,
        window_s=told.curve_s,
        gpu_busy_share=1 - idle,
        gpu_idle_share=idle,
        idle_by_cause={"unknown": idle} if idle > 0 else {},
        devices=curves.devices,
    )


def only(measured: Measured) -> Measured:
    """Return what curves tell, without traces that cannot be believed."""
    told = measured.curves
    return replace(measured, analyses=(), measurements=Measurements(told.measurements), gpus=told.gpus or measured.gpus)


def capped(finding: Finding) -> Finding:
    """Return the finding, no surer than a curve can make it."""
    return replace(finding, confidence=min(finding.confidence, MOST_CONFIDENCE))


def prediction(findings: Iterable[Finding]) -> Prediction:
    """Return that nothing is predicted, and why."""
    return Prediction(
        refused=NO_PREDICTION,
        unpriced=dict.fromkeys((finding.rule for finding in findings if finding.fixes), NO_PREDICTION),
    )


def enough(summary: Summary, findings: Iterable[Finding], curves: Curves) -> bool:
    """Say whether a run with curves alone is judged.

    It is not where its GPUs idle and no shape says what it may be, nor where they are busy for a moment, or in what
    little of the time was measured, nor where samples see the same part of every step.
    """
    if same_part(curves):
        return False
    if summary.gpu_idle_share is None:
        return summary.data_wait_share is not None
    if any(finding.severity != "low" for finding in findings):
        return True
    return _unsaid(summary, findings) < MEDIUM and long_enough(summary, curves)


def long_enough(summary: Summary, curves: Curves) -> bool:
    """Say whether curves hold enough samples, of enough of the time, to say how much of it a GPU was busy."""
    few = _samples(curves) < SHAPED or (summary.curve_known_share or 0.0) < MOSTLY
    return not (few or same_part(curves))


def same_part(curves: Curves) -> bool:
    """Say whether samples see the same part of every step, so that nothing is known of the rest of it."""
    return bool(Measurements(curves.measurements).get("curve_same_part", 0.0))


def _unsaid(summary: Summary, findings: Iterable[Finding]) -> float:
    """Return the idle time of which no shape speaks."""
    return (summary.gpu_idle_share or 0.0) - sum(finding.lost_share or 0.0 for finding in findings)


def _samples(curves: Curves) -> int:
    return int(Measurements(curves.measurements).get("curve_samples", 0.0))


def verdict(summary: Summary, findings: tuple[Finding, ...], curves: Curves) -> str:
    """Return the judgement on a run of which there are only curves, the answer first."""
    if summary.gpu_idle_share is None:
        return _without_utilization(summary, curves)
    idle, count = summary.gpu_idle_share, summary.gpu_count
    who = "Your GPU was" if count == 1 else "Your GPUs were"
    known = f"({', '.join(_known(summary, curves))})"
    grave = any(finding.severity != "low" for finding in findings)
    if same_part(curves):
        whose = "your GPU" if count == 1 else "your GPUs"
        return f"Cannot judge: the samples show {whose} busy {1 - idle:.0%} of the time {known}, {SAME_PART}"
    if idle < HEALTHY_IDLE and grave:
        return f"{who} busy {1 - idle:.0%} of the time {known}, {BUSY_IS_NOT_WORK}"
    if idle < HEALTHY_IDLE and _samples(curves) < SHAPED:
        few = f"{_samples(curves)} samples are too few to judge a job by"
        return f"Cannot judge: {who[0].lower()}{who[1:]} busy {1 - idle:.0%} {known}; {few}. {_command(CURVE_LONG)}"
    if idle < HEALTHY_IDLE and summary.telling:
        return f"Healthy: the {'GPU was' if count == 1 else 'GPUs were'} busy {1 - idle:.0%} of the time {known}."
    if idle < HEALTHY_IDLE:
        return " ".join((f"{who} busy {1 - idle:.0%} of the time {known}.", *_not_telling(summary)))
    said = " ".join((f"{who} idle {idle:.0%} of the time {known}.", *_unmeasured(summary)))
    if not grave and _unsaid(summary, findings) >= MEDIUM:
        return f"{said} The curve has no shape that says what it may be: not judged. {NEXT}"
    shape = _of_most_idle(findings, Measurements(curves.measurements))
    if shape is None:
        return f"{said} That is too little at a time to have a shape."
    if shape.rule in BY_LOG:
        return f"{said} {shape.shown[:1].upper()}{shape.shown[1:]}, says the trainer's log."
    return f"{said} A curve shows when, not why: {shape.shown}."


def _not_telling(summary: Summary) -> Iterator[str]:
    """Yield why a job is not healthy whose GPUs are busy on average: see `Summary.telling`."""
    yield from _unmeasured(summary)
    rest = sorted((one for one in summary.devices if one.busy_share < UTILIZED), key=lambda one: one.busy_share)
    if rest:
        named = _listed([f"{_called(one)} {one.busy_share:.0%}" for one in rest], NAMED)
        yield f"Not all of them: {named}."


def _unmeasured(summary: Summary) -> Iterator[str]:
    known = summary.curve_known_share
    if known is not None and known < WHOLE:
        yield f"Nothing is known of {1 - known:.0%} of the time in which it was sampled."


def _called(one: DeviceBusy) -> str:
    device = "" if one.device < 0 else f"GPU {one.device}"
    return " ".join(filter(None, (one.node, device, one.instance and f"MIG {one.instance}"))) or "all GPUs"


def _of_most_idle(findings: Iterable[Finding], m: Measurements) -> Finding | None:
    """Return the finding that holds most of the idle time; a lower clock, say, loses busy time."""
    busy = {rule.id: rule.busy_share(m) for rule in all_rules()}
    idle = {id(one): (one.lost_share or 0.0) - busy[one.rule] for one in findings}
    best = max(findings, key=lambda one: idle[id(one)], default=None)
    return best if best is not None and idle[id(best)] > 0 else None


def _known(summary: Summary, curves: Curves) -> Iterator[str]:
    """Yield by what it is known: the formats, how many GPUs, for how long, how often."""
    used = (curve for curve in curves.curves if not curve.step_log)
    yield _listed(dict.fromkeys(curve.kind for curve in used), KINDS)
    hosts = len({device.node for device in summary.devices})
    yield _counted(summary.devices) + (f" of {hosts:,} hosts" if hosts > 1 else "")
    if summary.curve_s is not None:
        every = summary.curve_interval_s
        yield span(summary.curve_s) + (f", one sample per {_each(every)}" if every else "")


def _each(seconds: float) -> str:
    """Return how often, to stand behind "per": "second", "30 s"."""
    return {1.0: "second", 60.0: "minute"}.get(round(seconds, 2), span(seconds))


def _counted(devices: Sequence[DeviceBusy]) -> str:
    """Return how many GPUs these are, and of how many parts where they are split: "7 MIG instances of 1 GPU"."""
    count, parts = gpu_count(devices), sum(bool(device.instance) for device in devices)
    split = f"{parts:,} MIG instance{'' if parts == 1 else 's'} of " if parts else ""
    return f"{split}{count:,} GPU{'' if count == 1 else 's'}"


def _without_utilization(summary: Summary, curves: Curves) -> str:
    """Say what curves do tell that have no utilization of a GPU: a moment, other counters, a trainer's steps."""
    of_gpus = [curve for curve in curves.curves if not curve.step_log]
    m = Measurements(curves.measurements)
    if not of_gpus or summary.data_wait_share is not None:
        return _of_the_log(summary)
    kinds = _listed(dict.fromkeys(curve.kind for curve in of_gpus), KINDS)
    if curves.devices:
        samples = int(m.get("curve_samples", 1.0))
        moments = "one moment" if samples <= 1 else f"{samples} moments"
        return (
            f"Cannot judge: {moments}, not a curve ({kinds}: {_at_that_moment(curves)}). "
            f"{_command(CURVE if samples <= 1 else CURVE_LONG)}"
        )
    gpus = {
        (series.node, series.device, series.instance): series.subject
        for curve in of_gpus
        for series in curve.series
        if series.device is not None
    }
    if not gpus:
        names = _listed(sorted({series.name for curve in of_gpus for series in curve.series}), NAMED)
        return f"Cannot judge: no GPU's utilization is recorded ({kinds}: {names}). {_command(CURVE)}"
    named = _listed((_of_gpu(gpus[gpu]) for gpu in sorted(gpus)), NAMED)
    split = any(instance for *_, instance in gpus)
    why = ", which counts none for a GPU that is split (MIG)" if split else ""
    return f"Cannot judge: the utilization of {named} is not recorded ({kinds}{why}). {_command(CURVE_ACTIVITY)}"


def _of_the_log(summary: Summary) -> str:
    """Return what a trainer's log alone says."""
    step = summary.step_time_s
    takes = (
        "The trainer's log does not tell how long steps take"
        if step is None
        else f"Steps take {span(step)} (the trainer's log)"
    )
    unknown = f"what the GPU does meanwhile was not recorded. {_command(CURVE)}"
    wait = summary.data_wait_share
    if wait is None:
        return f"Cannot judge: {takes[0].lower()}{takes[1:]}; {unknown}"
    much = "less than 1%" if wait < 0.005 else f"{wait:.0%}"
    return f"{takes} and wait for data {much} of that; {unknown}"


def _at_that_moment(curves: Curves) -> str:
    """Return how busy GPUs were in one sample, and what they held."""
    busy = [device.busy_share for device in curves.devices]
    low, high = min(busy), max(busy)
    count = _counted(curves.devices)
    share = f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"
    held = max(
        (
            float(series.value[-1])
            for curve in curves.curves
            for series in curve.series
            if series.name == "memory_used_bytes" and len(series.value) and series.value[-1] > 0
        ),
        default=None,
    )
    return f"{count} at {share}" + ("" if held is None else f", up to {held / 2**30:.3g} GiB held")


def disagreements(curves: Curves) -> Iterator[str]:
    """Yield sentences on counters that cannot both mean what they seem to."""
    yield from map(_of_gpu, curves.contradictions)


def _of_gpu(subject: str) -> str:
    return re.sub(r"\bgpu (?=\d)", "GPU ", subject)


def _command(how: str) -> str:
    return f"{how[0].upper()}{how[1:]}."


def _listed(names: Iterable[str], most: int) -> str:
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
