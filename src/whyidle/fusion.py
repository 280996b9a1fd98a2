"""Curves beside stronger evidence of the same run: one verdict, in which each is believed for what it can know.

A trace and a step log know causes, a curve knows the whole run. What a curve may be is settled by what they found or
ruled out; where they do not agree, that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whyidle.measure import Measured
from whyidle.measure.step_log.gpus import NodeGpu, of_job, on_node
from whyidle.model.evidence import Curve, Fact, Ignored, Node, Run
from whyidle.model.finding import LOW, OWN_CODE, UTILIZED, Finding, Summary
from whyidle.model.measurement import Measurements
from whyidle.rules import all_rules

FAMILY: Final = "curve."
# A finding of a curve is settled by one that explains so much of it (judgement).
EXPLAINED: Final = 0.5
# What happens in every step, if it does: a trace of a few steps rules these families out, others only a whole run does.
EVERY_STEP: Final = {"input", "transfer", "sync", "launch", "host", "compute", "dist"}
NOT_EVERY_STEP: Final = {"input.worker_startup", "host.gc_pause"}
# Waits of some steps only: a log of every tenth step may not tell of them.
SOME_STEPS: Final = {"input.worker_startup", "input.storage", "input.workers_too_few"}
HELD_DOWN: Final = 0.1  # of busy samples, in which a reason holds the clock down (hw.power_cap, hw.thermal)
SAWTOOTH: Final = "curve.sawtooth"
ONCE: Final = {"curve.startup", "curve.idle_held"}
# What the trainer's log says that comes at the interval of dips, and the rule that speaks of it.
EVENTS: Final = {"checkpoint": "pause.checkpoint_sync", "evaluation": "pause.evaluation"}
PAUSES: Final = 60.0  # s between dips, and
# Steps: what every step holds does not come so seldom; a loader's batches come in bursts (judgement).
MANY: Final = 20.0
UNLIKE: Final = 0.2  # of a step: trainers' and recorded steps that differ by more are told (judgement)
HAS: Final = "processes_of_job"  # the counter of NVML's processes on a GPU that are the job's
WHOLE: Final = "whyidle run"  # kind of the curve that a run directory holds
ELSEWHERE: Final = "recorded at another time than the job, or by a clock of another time zone"


def of_the_job(run: Run) -> Run:
    """Return the run with its curves cut to the time of the job, where that is known; without those of another time."""
    bounds = _bounds(run.nodes)
    if bounds is None or not run.curves:
        return run
    kept, ignored, warnings = [], list(run.ignored), list(run.warnings)
    for curve in run.curves:
        inside = curve if curve.clock != "wall" else _within(curve, *bounds)
        if inside is None:
            ignored.append(Ignored(curve.path, f"{ELSEWHERE}."))
            warnings.append(f"{curve.path}: {ELSEWHERE}: not judged with it.")
            continue
        if inside is not curve:
            warnings.append(f"{curve.path}: judged is only what it holds of the time of the job.")
        of_job = _on_its_gpus(inside, run)
        if of_job is not inside:
            warnings.append(f"{curve.path}: judged are only the GPUs on which the job has processes.")
        kept.append(of_job)
    return replace(run, curves=tuple(kept), ignored=tuple(ignored), warnings=tuple(warnings))


def _bounds(nodes: Sequence[Node]) -> tuple[int, int] | None:
    """Return when the job ran, ns since 1970; of one that still runs the end is open."""
    if not nodes:
        return None
    ends = [np.iinfo(np.int64).max if n.ended is None else n.wall + n.ended - n.started for n in nodes]
    return min(n.wall for n in nodes), int(max(ends))


def _within(curve: Curve, low: int, high: int) -> Curve | None:
    """Return what a curve holds of this time: itself where that is all of it, None where it is nothing."""
    series = []
    for one in curve.series:
        first, last = np.searchsorted(one.time, low, "left"), np.searchsorted(one.time, high, "right")
        if last > first:
            series.append(replace(one, time=one.time[first:last], value=one.value[first:last]))
    if not series:
        return None
    same = sum(len(one.time) for one in series) == sum(len(one.time) for one in curve.series)
    return curve if same else replace(curve, series=tuple(series))


def _on_its_gpus(curve: Curve, run: Run) -> Curve:
    """Return what a curve holds of the GPUs that the job works on, where NVML told which on the curve's host."""
    devices: dict[str, set[int]] = {}
    for node in run.nodes:
        used = {gpu.device for gpu in on_node(run, node) if _counts(gpu, HAS)}
        devices |= {node.host: used} | ({"": used} if len(run.nodes) == 1 else {}) if used else {}
    series = tuple(
        one for one in curve.series if one.device is None or one.device in devices.get(one.node, {one.device})
    )
    left = any(one.device is not None for one in series)  # else it numbers GPUs in another way
    return curve if len(series) == len(curve.series) or not left else replace(curve, series=series)


def of_nodes(run: Run) -> tuple[Curve, ...]:
    """Return what `whyidle run` sampled of the job's GPUs as curves, for a run in which no step was seen."""
    return tuple(curve for node in run.nodes for curve in _of_node(run, node))


def _of_node(run: Run, node: Node) -> Iterator[Curve]:
    here = [one for one in run.series if one.node == node.name and one.device is not None and one.pid is None]
    works = (gpu for gpu in of_job(on_node(run, node)) if _counts(gpu, HAS) or _counts(gpu, "utilization_percent"))
    devices = {gpu.device for gpu in works}
    called = node.host if len(run.nodes) > 1 else ""
    series = tuple(
        replace(one, node=called, time=one.time + (node.wall - node.started)) for one in here if one.device in devices
    )
    subjects = {f"gpu {one.device}": one.subject for one in series}
    facts = tuple(
        Fact(fact.name, fact.value, fact.where, subjects[fact.subject])
        for fact in node.facts
        if fact.subject in subjects
    )
    if any(one.name == "utilization_percent" for one in series):
        yield Curve(node.path, WHOLE, series, "wall", facts)


def _counts(gpu: NodeGpu, name: str) -> bool:
    """Say whether a counter of a GPU was ever above zero."""
    return bool(np.nansum(gpu.column(name)) > 0)


def settled(findings: Sequence[Finding], measured: Measured) -> list[Finding]:
    """Return findings in which what curves suggest is settled by what stronger evidence found or ruled out."""
    stronger = [finding for finding in findings if not finding.rule.startswith(FAMILY)]
    from_log = [finding for finding in findings if finding.rule == "curve.data_wait"]
    out = ruled_out(measured, {finding.rule for finding in stronger})
    agree: dict[int, list[Finding]] = {}
    left: list[Finding] = []
    spoken = {id(one): one.lost_share or 0.0 for one in (*stronger, *from_log)}  # what each can still explain
    shapes = [finding for finding in findings if finding.rule.startswith(FAMILY)]
    for finding in sorted(shapes, key=lambda one: (-(one.lost_share or 0.0), one.rule)):
        by = _settles(finding, [one for one in stronger if _comes_so(one, finding, measured)], spoken)
        if by is None and finding not in from_log and _in_steps(finding, measured):
            by = _same(finding, from_log, spoken)
        if by is not None:
            agree.setdefault(id(by), []).append(finding)
            continue
        candidates = tuple(rule for rule in finding.candidates if rule not in out)
        left.append(replace(finding, candidates=candidates) if candidates != finding.candidates else finding)
    return [_agreeing(finding, agree.get(id(finding), ())) for finding in (*stronger, *left)]


def _comes_so(cause: Finding, finding: Finding, measured: Measured) -> bool:
    """Say whether a cause that was found could come at the times at which a curve idles.

    What takes a part of every step is neither a start-up nor a GPU that is left, nor pauses many steps apart; and
    where the trainer's log says what comes at an interval, that it is.
    """
    told = measured.measurements
    named = EVENTS.get(str(told.one("curve_dip_event").value)) if "curve_dip_event" in told else None
    if finding.rule == SAWTOOTH and named is not None:
        return cause.rule == named
    if cause.rule.partition(".")[0] not in EVERY_STEP or cause.rule in NOT_EVERY_STEP:
        return True
    if finding.rule == SAWTOOTH:
        every = told.get("curve_dip_interval_s", 0.0)
        return every < PAUSES or every < MANY * told.get("step_time_s", every)
    return finding.rule not in ONCE


def _in_steps(finding: Finding, measured: Measured) -> bool:
    """Say whether a curve idles as steps would that each wait: not in dips that many steps lie between."""
    told = measured.measurements
    every, step = told.get("curve_dip_interval_s", 0.0), told.get("curve_step_time_s", 0.0)
    return finding.rule not in ONCE and (finding.rule != SAWTOOTH or not step or every < MANY * step)


def _settles(finding: Finding, stronger: Sequence[Finding], spoken: dict[int, float]) -> Finding | None:
    """Return the finding that names the cause of what a curve shows, if enough is left of all that do to explain it."""
    named = [one for one in stronger if one.rule in finding.candidates]
    best = max(named, key=lambda one: one.lost_share or 0.0, default=None)
    return best if best is not None and _explained(finding, named, spoken) else None


def _same(finding: Finding, from_log: Sequence[Finding], spoken: dict[int, float]) -> Finding | None:
    """Return the waits for data of a trainer's log, if they are what a curve shows."""
    alike = (one for one in from_log if set(one.candidates) & set(finding.candidates))
    return next((one for one in alike if _explained(finding, [one], spoken)), None)


def _explained(finding: Finding, causes: Sequence[Finding], spoken: dict[int, float]) -> bool:
    """Say whether causes explain half of what is lost, and take it from what they can explain: nothing twice."""
    wanted = EXPLAINED * (finding.lost_share or 0.0)
    if sum(spoken[id(one)] for one in causes) < wanted:
        return False
    for one in causes:
        taken = min(spoken[id(one)], wanted)
        spoken[id(one)] -= taken
        wanted -= taken
    return True


def _agreeing(finding: Finding, curves: Iterable[Finding]) -> Finding:
    said = "; ".join(dict.fromkeys(f"the curve agrees: {one.shown}" for one in curves))
    return replace(finding, seen="; ".join(filter(None, (finding.seen, said)))) if said else finding


def ruled_out(measured: Measured, found: set[str]) -> set[str]:
    """Return the rules that were asked and are silent, where their evidence would have shown the cause in this run.

    A step log tells of the whole run, a trace of what happens in every step. A trainer's log in which steps do not
    wait for data rules out all that would make them; one of every tenth step only what is in each.
    """
    told = measured.measurements
    out = {rule.id for rule in all_rules() if not rule.id.startswith(FAMILY) and not rule.missing(told)} - found
    if not measured.watched.logs and measured.traces:
        out = {rule for rule in out if rule.partition(".")[0] in EVERY_STEP} - NOT_EVERY_STEP
    logged = Measurements(measured.curves.measurements)
    inputs = {rule.id for rule in all_rules() if rule.id.startswith("input.")}
    if logged.get("curve_data_wait_share", 1.0) < LOW:
        some = SOME_STEPS if logged.get("curve_log_every", 1.0) > 1 else set()
        out |= inputs - found - some
    elif "curve_data_wait_share" in logged and not measured.watched.logs:
        out -= inputs  # the run waits for data, whatever its traced steps do
    return out - set(_held_down(told))


def _held_down(told: Measurements) -> Iterator[str]:
    """Yield the rules of what is seen to hold clocks down: at full power they are silent, or where it costs little."""
    for rule, name in (("hw.power_cap", "throttle_power_share"), ("hw.thermal", "throttle_thermal_share")):
        if told.get(name, 0.0) >= HELD_DOWN:
            yield rule


def remarks(measured: Measured, summary: Summary) -> Iterator[str]:
    """Yield what a curve of the run adds to a verdict by stronger evidence, and where the two do not agree."""
    yield from _of_steps(measured, summary)
    idle, traced = summary.curve_idle_share, summary.gpu_idle_share
    if idle is None:
        return
    used = summary.utilization_mean_share
    kinds = ", ".join(dict.fromkeys(curve.kind for curve in measured.curves.curves if not curve.step_log))
    if traced is None:
        other = "" if summary.on_gpu is not False else ", by none of this job" if idle < UTILIZED else ": it uses none"
        yield f"{kinds}: GPUs busy {1 - idle:.0%} of the time{other}."
        lost = sum(summary.lost_shares.values())
        if summary.on_gpu and lost - idle >= OWN_CODE:
            yield (
                "That counts each sample in which any kernel ran, or is of other GPUs: the recording shows the GPU "
                f"wait {lost:.0%} of the time."
            )
        elif used is not None and abs(1 - idle - used) >= OWN_CODE:
            yield (
                f"NVML on the job's machine says {used:.0%} of its GPUs in the same time: the curve may be of another "
                "machine or of other GPUs."
            )
    elif traced - idle >= OWN_CODE:
        yield (
            f"{kinds} calls the GPU busy {1 - idle:.0%} of the time: it counts each sample in which any kernel ran; "
            f"between kernels the trace shows the GPU idle {traced:.0%} of the time."
        )
    elif idle - traced >= OWN_CODE:
        yield f"Over the whole run ({kinds}) GPUs were idle {idle:.0%} of the time; the traced steps show {traced:.0%}."


def _of_steps(measured: Measured, summary: Summary) -> Iterator[str]:
    """Yield how the steps that a trainer logged differ from those of the trace or of `whyidle run`."""
    logged = Measurements(measured.curves.measurements)
    step, mean = summary.step_time_mean_s or summary.step_time_s, logged.get("curve_step_time_mean_s", 0.0)
    if step and mean and abs(mean / step - 1) >= UNLIKE:
        yield f"The trainer's log says that a mean step takes {mean:.3g} s, what was recorded of them {step:.3g} s."
    wait, seen = logged.get("curve_data_wait_share", 0.0), summary.data_wait_share
    if seen is not None and abs(wait - seen) >= OWN_CODE and "curve_data_wait_share" in logged:
        yield f"The trainer's log says that steps wait for data {wait:.0%} of their time, the recording {seen:.0%}."


def rests(summary: Summary) -> bool:
    """Say whether a curve shows GPUs idle over the run while the traced steps do not."""
    idle, traced = summary.curve_idle_share, summary.gpu_idle_share
    return idle is not None and traced is not None and idle - traced >= OWN_CODE
