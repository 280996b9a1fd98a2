"""The whole judgement on one screen: measure, ask the rules, rank, and say it in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from whyidle import curves, fusion, replay, watched
from whyidle.measure import Measured, measure
from whyidle.measure.curve.picture import pictures
from whyidle.model.detail import Detail
from whyidle.model.evidence import Run, Trace
from whyidle.model.finding import (
    CAUSES,
    GROUPS,
    HEALTHY_IDLE,
    LOG,
    MEDIUM,
    EvidenceFile,
    Finding,
    Level,
    Prediction,
    Report,
    RunInfo,
    Summary,
)
from whyidle.model.measurement import (
    CURVE,
    CURVE_ACTIVITY,
    CURVE_CLOCKS,
    CURVE_GPUS,
    CURVE_LOG,
    CURVE_LONG,
    LIVE,
    LIVE_STACKS,
    Measurements,
)
from whyidle.rank import asked, priced, rank, sequence
from whyidle.rules import all_rules, ask

LEAST_CONFIDENCE = 0.05
# Ways to record a curve: nobody needs one who has a trace or a log.
CURVES = (CURVE, CURVE_LONG, CURVE_GPUS, CURVE_CLOCKS, CURVE_ACTIVITY, CURVE_LOG)
SAID = 3  # things that a warning names
NAMED = 0.01  # of window: less is not named
# torch_tb_profiler's limit for communication, of step time.
EXPOSED = 0.10
# Say so where the GPU is busy between its first and last operation but not over the step.
OUTSIDE_SPAN = 0.2


def judge(run: Run, *, predict: bool = True, what_if: Sequence[str] = (), measured: Measured | None = None) -> Report:
    """Return the report on a run: by its traces of GPU work, else by logs of a job that was watched, else by curves.

    Curves beside a trace or logs tell what those do not show of the run. A run that shows nothing of a GPU, or that
    cannot be believed, is not judged.

    Args:
        run: the evidence.
        predict: whether to predict what fixes are worth.
        what_if: rules whose fixes shall be predicted together, as somebody asked.
        measured: what `measured_of` returns of the run, for who wants to go on with it.
    """
    run = fusion.of_the_job(run)
    measured = measured or measure(run)
    if not (measured.traces or measured.watched.logs or measured.curves.devices) and (own := fusion.of_nodes(run)):
        run = replace(run, curves=(*run.curves, *own))
        measured = measure(run)
    warnings = [*run.warnings, *(w for trace in run.traces for w in trace.warnings), *measured.warnings]
    warnings += curves.said_in_reading(run.curves)
    warnings += different_jobs(measured.traces)
    warnings += dict.fromkeys(doubt.message for doubt in measured.doubts)
    info = run_info(run, measured)
    if not measured.traces and not measured.watched.logs and measured.curves.curves:
        return judge_curve(run, measured, tuple(warnings), predict)
    if not measured.traces and run.nodes:
        return judge_log(run, measured, tuple(warnings), predict, what_if)
    if not measured.traces:
        told = [warning for trace in run.traces for warning in trace.warnings]
        cut = next((warning for warning in told if CUT in warning), None)
        lost = any(LOST in warning for warning in told)
        verdict_ = f"Cannot judge: {cut} None of that is of the GPU." if cut else NO_RECORDS if lost else NO_GPU
        return Report(info, Summary(verdict_), warnings=tuple(w for w in warnings if w != cut), judged=False)
    summary = curves.summarize(summarize(measured), measured.curves)
    refusal = next((doubt for doubt in measured.doubts if doubt.refuse), None)
    if refusal and measured.curves.devices:  # what is wrong with the trace is a warning already
        return judge_curve(run, curves.only(measured), tuple(warnings), predict)
    if refusal:
        summary = hollow(summary) if refusal.hollow else summary
        summary = replace(summary, verdict=f"Cannot judge: {refusal.message}")
        return Report(info, summary, warnings=tuple(warnings), detail=measured.detail, judged=False)
    findings, unknown = ask(measured.measurements, elsewhere(run, measured))
    findings = fusion.settled(findings, measured)
    ranked = rank(doubted(finding, measured.confidence) for finding in findings)
    ranked, prediction = predicted(measured, ranked, what_if) if predict else (ranked, None)
    said = [verdict(measured.measurements, ranked, summary), *watched.remarks(measured.measurements, summary)]
    said += fusion.remarks(measured, summary)
    said += curves.disagreements(measured.curves)
    said += watched.end(run, summary.steps)
    summary = replace(summary, verdict=" ".join(said))
    # a GPU that idles for no visible reason is not "nothing found"
    left = sum(unexplained(measured.measurements, ranked).values())
    spoken = watched.spoken(summary, ranked) and not watched.rests(summary) and not fusion.rests(summary)
    judged = (left < MEDIUM and spoken) or any(finding.severity != "low" for finding in ranked)
    detail = drawn(measured)
    return Report(info, summary, ranked, tuple(unknown), tuple(warnings), detail, prediction, judged=judged)


def measured_of(run: Run) -> Measured:
    """Return what `judge` measures of a run."""
    return measure(fusion.of_the_job(run))


def judge_curve(run: Run, measured: Measured, warnings: tuple[str, ...], predict: bool) -> Report:
    """Return the report on a run of which there are only curves that others recorded."""
    info, told = run_info(run, measured), measured.curves
    findings, unknown = ask(measured.measurements, elsewhere(run, measured))
    ranked = rank(curves.capped(finding) for finding in fusion.settled(findings, measured))
    summary = curves.alone(Summary(""), told)
    said = [curves.verdict(summary, ranked, told), *curves.disagreements(told)]
    if run.nodes:  # a job was watched, but no step of it was seen
        said += [watched.nothing(run).replace("Cannot judge: ", "By counters alone: ")]
    return Report(
        info,
        replace(summary, verdict=" ".join(said)),
        ranked,
        tuple(unknown),
        warnings,
        drawn(measured),
        curves.prediction(ranked) if predict else None,
        judged=curves.enough(summary, ranked, told),
    )


def drawn(measured: Measured) -> Detail:
    """Return the tables behind the numbers: those of traces, where there are any, and those of curves."""
    told = measured.curves
    return replace(measured.detail if measured.traces else Detail(), curves=pictures(told.curves, told.devices))


def elsewhere(run: Run, measured: Measured) -> dict[str, str]:
    """Return the ways to measure that are gone, or that would tell less than what is there: see `rules.ask`."""
    curve = {} if measured.curves.measurements else dict.fromkeys(CURVES, "")
    live = dict.fromkeys((LIVE, LIVE_STACKS), "")  # of a job that runs; this is a recording
    return curve | live | watched.done(run, measured.watched)


def judge_log(run: Run, measured: Measured, warnings: tuple[str, ...], predict: bool, what_if: Sequence[str]) -> Report:
    """Return the report on a job of which there are logs and no trace of a GPU."""
    info = run_info(run, measured)
    if not measured.watched.logs:
        return Report(info, Summary(watched.nothing(run)), warnings=warnings, judged=False)
    findings, unknown = ask(measured.measurements, elsewhere(run, measured))
    findings = fusion.settled(findings, measured)
    ranked = rank(doubted(finding, measured.confidence) for finding in findings)
    ranked, prediction = predicted(measured, ranked, what_if) if predict else (ranked, None)
    summary = curves.summarize(watched.summarize(Summary(""), measured.watched), measured.curves)
    unknown = [] if summary.on_gpu is False else unknown  # what is left to record takes a GPU
    ranks = max(info.world_size or 1, len(measured.watched.logs))
    verdict_ = watched.verdict(summary, ranked, ranks, traced=bool(run.traces))
    said = [verdict_, *watched.slowest(measured.measurements)]
    said += fusion.remarks(measured, summary)
    said += curves.disagreements(measured.curves)
    said += watched.end(run, summary.steps)
    summary = replace(summary, verdict=" ".join(said))
    judged = watched.enough(summary, ranked, ranks)
    return Report(info, summary, ranked, tuple(unknown), warnings, drawn(measured), prediction, judged=judged)


def predicted(
    measured: Measured, ranked: tuple[Finding, ...], what_if: Sequence[str]
) -> tuple[tuple[Finding, ...], Prediction]:
    """Return the findings with what their fixes are worth, ordered by it, and what they are worth together."""
    pricer, prediction = replay.pricer(measured)
    if pricer is None:
        why = dict.fromkeys((finding.rule for finding in ranked if finding.fixes), prediction.refused)
        return ranked, replace(prediction, unpriced=why)
    worth, unpriced = priced(ranked, pricer)
    worth = rank(worth)
    order = sequence(worth, pricer)
    joint = order[-1].predicted if order else None
    answers = (asked(what_if, worth, pricer),) if what_if else ()
    priced_some = any(fix.predicted for finding in worth for fix in finding.fixes)
    refused = NOTHING_PRICED if unpriced and not priced_some else ""
    return worth, replace(prediction, refused=refused, sequence=order, joint=joint, unpriced=unpriced, asked=answers)


NOTHING_PRICED = "this evidence does not price the fixes of what was found"


CUT = "cut short"  # what the reader says of a truncated file
LOST = "GPU events have no time"  # of one whose GPU events are empty
ROUNDING = 1e-9  # of the window: sums of shares are off by less
NO_RECORDS = "Cannot judge: the profiler lost the records of all GPU operations. Record fewer steps, or less often."
NO_GPU = (
    "Cannot judge: no GPU operation was recorded, so nothing is known of the GPU. "
    "Record where torch.cuda.is_available() is true, with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."
)


def doubted(finding: Finding, believed: float) -> Finding:
    """Return the finding with its confidence lowered by what is wrong with the recording."""
    return replace(finding, confidence=max(finding.confidence * believed, LEAST_CONFIDENCE))


def hollow(summary: Summary) -> Summary:
    """Return a summary that claims nothing about the GPU's time."""
    return Summary(
        verdict="",
        window_s=summary.window_s,
        steps=summary.steps,
        steps_from=summary.steps_from,
        step_time_s=summary.step_time_s,
        step_time_mean_s=summary.step_time_mean_s,
    )


def run_info(run: Run, measured: Measured) -> RunInfo:
    traces = measured.traces or run.traces
    logs = measured.watched.logs
    sizes = [size for size in (*(t.world_size for t in traces), *(log.process.world_size for log in logs)) if size]
    return RunInfo(
        evidence=(
            *(EvidenceFile(trace.path, trace.kind, trace.rank) for trace in traces),
            *(EvidenceFile(log.path, LOG, log.process.rank) for log in logs),
            *(EvidenceFile(curve.path, curve.kind, None) for curve in measured.curves.curves),
        ),
        ignored=run.ignored,
        gpus=measured.gpus,
        world_size=max(sizes, default=None),
        settings=measured.settings,
        ended=watched.ended(run),
        levels=levels(measured),
    )


def levels(measured: Measured) -> tuple[Level, ...]:
    """Return what kinds of evidence were judged, the one that says most first."""
    there: dict[Level, bool] = {
        "trace": bool(measured.traces),
        "step log": bool(measured.watched.logs),
        "trainer log": any(curve.step_log for curve in measured.curves.curves),
        "curve": any(not curve.step_log for curve in measured.curves.curves),
    }
    return tuple(level for level, is_there in there.items() if is_there)


def different_jobs(traces: tuple[Trace, ...]) -> Iterator[str]:
    """Yield a warning where recordings that were given as one run do not look like one."""
    sizes = sorted({trace.world_size for trace in traces if trace.world_size})
    models = sorted({gpu.name for trace in traces for gpu in trace.gpus if gpu.name and gpu.device in worked(trace)})
    if len(traces) > 1 and (len(sizes) > 1 or len(models) > 1):
        said = [f"of {size} ranks" for size in sizes[:SAID] if len(sizes) > 1]
        said += [f"on {model}" for model in models[:SAID] if len(models) > 1]
        yield (
            f"these recordings look like those of different jobs ({', '.join(said)}), but are judged as one: "
            "give whyidle one job at a time."
        )


def worked(trace: Trace) -> set[int]:
    """Return the devices that did something in a trace."""
    return {int(device) for device in np.unique(trace.device_slices.device)}


def summarize(measured: Measured) -> Summary:
    """Return the answer in numbers; what was not measured is None."""
    m = measured.measurements

    def number(name: str) -> float | None:
        return m.number(name) if name in m else None

    causes = {cause: m.number(f"idle_{cause}_share") for cause in CAUSES if f"idle_{cause}_share" in m}
    steps = number("steps")
    traced = Summary(
        verdict="",
        window_s=number("window_s"),
        steps=None if steps is None else int(steps),
        steps_from=measured.steps_from,
        step_time_s=number("step_time_s"),
        step_time_mean_s=number("step_time_mean_s"),
        gpu_busy_share=number("gpu_busy_share"),
        gpu_idle_share=number("gpu_idle_share"),
        data_wait_share=number("data_wait_share"),
        collective_wait_share=number("collective_wait_share"),
        collective_exposed_share=number("collective_exposed_share"),
        tensor_core_share=number("tensor_core_share"),
        launches_per_step=number("launches_per_step"),
        mfu=number("mfu"),
        mfu_peak=str(m.one("mfu_peak").value) if "mfu_peak" in m else "",
        idle_by_cause={cause: share for cause, share in sorted(causes.items(), key=lambda item: -item[1]) if share > 0},
        devices=measured.devices,
    )
    return watched.summarize(traced, measured.watched)


def unexplained(m: Measurements, findings: tuple[Finding, ...]) -> dict[str, float]:
    """Return the idle time that no finding speaks for, by cause, the largest first, as shares of the window.

    A finding speaks for as much as it says is lost, of the causes that its rule explains in that order. What any GPU
    takes from kernel to kernel needs no finding.
    """
    rules = {rule.id: rule for rule in all_rules()}
    left = {cause: m.number(f"idle_{cause}_share") for cause in CAUSES}
    for finding in findings:
        rule = rules[finding.rule]
        idle = max((finding.lost_share or 0.0) - rule.busy_share(m), 0.0)
        for cause in rule.explains:
            spoken = min(idle, left[cause])
            left[cause] -= spoken
            idle -= spoken
    left["kernel_gap"] = max(left["kernel_gap"] - m.get("usual_kernel_gap_share", 0.0), 0.0)
    return dict(sorted(((cause, share) for cause, share in left.items() if share > 0), key=lambda item: -item[1]))


def verdict(m: Measurements, findings: tuple[Finding, ...], summary: Summary) -> str:
    """Return the judgement in a few sentences, the answer first. A log tells of more than the steps of the trace."""
    idle, lost = m.number("gpu_idle_share"), sum(summary.lost_shares.values())
    busy = part(1 - idle)
    of = "time" if summary.watched_s is None and summary.curve_idle_share is None else "traced steps"
    needless = any(finding.severity != "low" and not finding.rule.startswith(fusion.FAMILY) for finding in findings)
    rests = fusion.rests(summary) or watched.rests(summary)
    if idle >= HEALTHY_IDLE:
        text = f"Your GPU was idle {part(idle)} of the {of}."
    elif lost >= HEALTHY_IDLE:
        text = f"Your GPU was busy {busy} of the {of}, but over the whole run it waits {lost:.0%} of the time."
    elif rests and not needless:
        text = f"Your GPU was busy {busy} of the traced steps, but not over the whole run."
    elif any(finding.severity != "low" for finding in findings):
        text = f"Your GPU was busy {busy} of the {of}, but not all of that was needed."
    else:
        text = f"Healthy: the GPU was busy {busy} of the {of}."
    return " ".join([text, *remarks(m, findings)])


def part(share: float) -> str:
    """Return a share of the time as a verdict says it: nothing is all of it, or none, because it rounds to that."""
    said = f"{share:.0%}"
    if said == "100%" and share < 1 - ROUNDING:
        return "more than 99%"
    return "less than 1%" if said == "0%" and share > ROUNDING else said


def remarks(m: Measurements, findings: tuple[Finding, ...]) -> Iterator[str]:
    """Yield what has to be said next to the answer, so that it is not read wrongly."""
    outside, span = m.number("outside_span_share"), m.number("gpu_span_busy_share")
    if outside >= OUTSIDE_SPAN:
        yield (
            f"It was busy {span:.0%} of the time from its first to its last operation;"
            f" {outside:.0%} of the window lies before and after."
        )
    exposed = m.get("collective_exposed_share", 0.0)
    if exposed >= EXPOSED:
        yield f"{exposed:.0%} of the time only collectives ran: busy, but not computing."
    copies = m.get("h2d_exposed_share", 0.0) + m.get("d2h_exposed_share", 0.0)
    if copies >= EXPOSED:
        yield f"{copies:.0%} of the time only copies ran: busy, but not computing."
    left = unexplained(m, findings)
    if sum(left.values()) >= MEDIUM:
        by_label = {label: sum(left.get(cause, 0.0) for cause in causes) for label, causes in GROUPS.items()}
        most = sorted(by_label, key=lambda label: -by_label[label])[:SAID]
        named = ", ".join(f"{label} {by_label[label]:.0%}" for label in most if by_label[label] >= NAMED)
        yield f"Of {sum(left.values()):.0%} of the time this recording does not show what to change ({named})."
