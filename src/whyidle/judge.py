"""The whole judgement on one screen: measure, ask the rules, rank, and say it in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from whyidle.measure import Measured, measure
from whyidle.model.evidence import Run
from whyidle.model.finding import HEALTHY_IDLE, MEDIUM, EvidenceFile, Finding, Report, RunInfo, Summary
from whyidle.model.measurement import Measurements
from whyidle.rank import rank
from whyidle.rules import ask

LEAST_CONFIDENCE = 0.05
# torch_tb_profiler's limit for communication, of step time.
EXPOSED = 0.10
# Say so where the GPU is busy between its first and last operation but not over the step.
OUTSIDE_SPAN = 0.2


def judge(run: Run) -> Report:
    """Return the report on a run. A run without GPU work, or one that cannot be believed, is not judged."""
    with_gpu = [trace for trace in run.traces if len(trace.device_slices)]
    measured = measure(run)
    warnings = [*run.warnings, *(w for trace in run.traces for w in trace.warnings)]
    warnings += [
        f"{trace.path}: no GPU operation recorded, left out"
        for trace in run.traces
        if with_gpu and trace not in with_gpu
    ]
    warnings += dict.fromkeys(doubt.message for doubt in measured.doubts)
    info = run_info(run, measured)
    if not with_gpu:
        return Report(info, Summary(NO_GPU), warnings=tuple(warnings), judged=False)
    summary = summarize(measured)
    refusal = next((doubt for doubt in measured.doubts if doubt.refuse), None)
    if refusal:
        summary = hollow(summary) if refusal.hollow else summary
        summary = replace(summary, verdict=f"Cannot judge: {refusal.message}")
        return Report(info, summary, warnings=tuple(warnings), detail=measured.detail, judged=False)
    findings, unknown = ask(measured.measurements)
    ranked = rank(doubted(finding, measured.confidence) for finding in findings)
    summary = replace(summary, verdict=verdict(measured.measurements, ranked))
    judged = explained(measured.measurements, ranked)
    return Report(info, summary, ranked, tuple(unknown), tuple(warnings), measured.detail, judged)


NO_GPU = (
    "Cannot judge: no GPU operation was recorded, so nothing is known of the GPU. "
    "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on the machine with the GPU."
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
    sizes = [trace.world_size for trace in run.traces if trace.world_size]
    return RunInfo(
        evidence=tuple(EvidenceFile(trace.path, "kineto", trace.rank) for trace in run.traces),
        ignored=run.ignored,
        gpus=measured.gpus,
        world_size=max(sizes, default=None),
        settings=measured.settings,
    )


def summarize(measured: Measured) -> Summary:
    """Return the answer in numbers; what was not measured is None."""
    m = measured.measurements

    def number(name: str) -> float | None:
        return m.number(name) if name in m else None

    causes = {
        name.removeprefix("idle_").removesuffix("_share"): m.number(name)
        for name in (item.name for item in m if not item.subject)
        if name.startswith("idle_") and name not in {"idle_loader_share", "idle_data_range_share"}
    }
    steps = number("steps")
    return Summary(
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
        tensor_core_share=number("tensor_core_share"),
        launches_per_step=number("launches_per_step"),
        idle_by_cause={cause: share for cause, share in sorted(causes.items(), key=lambda item: -item[1]) if share > 0},
        devices=measured.devices,
    )


def graves(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != "low"]


def unexplained(m: Measurements) -> float:
    """Return the idle time of which this recording does not show the cause, as a share of the window."""
    return m.number("idle_unknown_share") + m.number("idle_queue_stall_share")


def explained(m: Measurements, findings: tuple[Finding, ...]) -> bool:
    """Say whether there is a verdict: a GPU that idles for no visible reason is not "nothing found"."""
    return bool(graves(findings)) or unexplained(m) < MEDIUM


def verdict(m: Measurements, findings: tuple[Finding, ...]) -> str:
    """Return the judgement in a few sentences, the answer first."""
    idle = m.number("gpu_idle_share")
    if idle >= HEALTHY_IDLE:
        text = f"Your GPU was idle {idle:.0%} of the time."
    elif graves(findings):
        text = f"Your GPU was busy {1 - idle:.0%} of the time, but the work itself can be faster."
    else:
        text = f"Healthy: the GPU was busy {1 - idle:.0%} of the time."
    return " ".join([text, *remarks(m, findings)])


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
    if not explained(m, findings):
        yield f"Why it idled for {unexplained(m):.0%} this recording does not show: record with `nsys profile` as well."
