"""What every form of a report says around its numbers: the answer's sentences, the job's line, the names of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from whyidle.model.finding import DeviceBusy, Report, Summary
from whyidle.render.sparks import curve_gpu
from whyidle.render.words import clean, duration, gpu_name, plural, rate

_OVERLAP = 0.02  # of the window: what losses may exceed idle time by through rounding
_SEVERAL = 1.5  # batches per step
_FILLS = 0.02  # of the mean step: the time divided by its steps differs by less
_FAR = 0.1  # of the median step: a mean that differs by more is shown beside it


def sentences(verdict: str) -> list[str]:
    """Return the answer, and apart from it what else the verdict says."""
    return re.split(r"(?<=[.!?]) (?=[A-Z0-9])", clean(verdict), maxsplit=1)


def facts_of(report: Report) -> list[str]:
    """Return what the answer is about: "V100-DGXS-32GB", "1 rank", "6 steps", "176 ms/step"."""
    run, summary = report.run, report.summary
    facts = [gpu_name(gpu.name) if gpu.count == 1 else f"{gpu.count} x {gpu_name(gpu.name)}" for gpu in run.gpus]
    ranks = len({file.rank for file in run.evidence} - {None}) or min(len(run.evidence), 1)
    ranks = 0 if run.only_curves else ranks
    if ranks and run.world_size and run.world_size > ranks:
        facts.append(f"{ranks:,} of {plural(run.world_size, 'rank')}")
    elif ranks:
        facts.append(plural(ranks, "rank"))
    if summary.steps:
        facts.append(_steps(summary.steps, summary))
    if summary.step_time_s is not None:
        median, mean = summary.step_time_s, summary.step_time_mean_s
        differ = mean is not None and abs(mean - median) > _FAR * median
        facts.append(f"{duration(median)}/step" + (f", mean {duration(mean)}" if differ and mean is not None else ""))
    elif summary.window_s is not None and not run.only_curves:  # of which the verdict says it
        facts.append(f"{duration(summary.window_s)} recorded")
    facts += [f"{rate(number)} {what}/s" for number, what in _rates(summary)]
    return facts


def _steps(count: int, summary: Summary) -> str:
    """Return how many steps were judged, and of how many batches where a step takes several."""
    each = summary.batches_per_step or 0.0
    if each < _SEVERAL or summary.steps_from != "Optimizer.step":
        return plural(count, "step")
    return f"{plural(count, 'optimizer step')} of {round(count * each):,} batches"


def _rates(summary: Summary) -> Iterator[tuple[float, str]]:
    """Yield how fast the job gets through its data; tokens say more than samples where both are known."""
    if summary.tokens_per_s is not None:
        yield summary.tokens_per_s, "tokens"
    elif summary.samples_per_s is not None:
        yield summary.samples_per_s, "samples"


def filling_step(summary: Summary) -> float | None:
    """Return the mean step, in s, where shares of the time are shares of it, too.

    None where they are not: pauses between steps, or a long first one, take their part of the time.
    """
    step, each = summary.step_time_mean_s or summary.step_time_s, time_per_step(summary)
    return step if step and each and abs(each / step - 1) <= _FILLS else None


def time_per_step(summary: Summary) -> float | None:
    """Return what of the time that was recorded comes on each step, in s: shares of the time are shares of it.

    None where shares and steps are of different times: a trace of a few steps of a job that was watched, or a curve.
    """
    traced = summary.gpu_idle_share is not None
    by_curve = summary.curve_idle_share is not None and not summary.idle_by_cause
    if traced and (by_curve or summary.watched_s is not None):
        return None
    window = summary.window_s if traced else summary.watched_s
    if window and summary.steps:
        return window / summary.steps
    return summary.step_time_mean_s or summary.step_time_s


def device_name(device: DeviceBusy, devices: tuple[DeviceBusy, ...]) -> str:
    """Name a device by its rank, and by its number too where a rank has several."""
    if device.rank is None:
        return curve_gpu(device, several=True)
    several = sum(other.rank == device.rank for other in devices) > 1
    return f"rank {device.rank}" + (f" GPU {device.device}" if several else "")


def about_the_list(report: Report) -> str:
    """Return what a reader would stumble over: an order that is not that of the savings, losses that do not add up."""
    says = []
    findings, summary = report.findings, report.summary
    lost = [finding.lost_share or 0.0 for finding in findings]
    if any(one.saved_share < following.saved_share for one, following in pairwise(findings)):
        says.append("order: saving \N{MULTIPLICATION SIGN} certainty ÷ effort")
    busy = [finding.rule.startswith(("compute.", "compile.")) and bool(finding.lost_share) for finding in findings]
    of_idle = sum(share for share, in_busy in zip(lost, busy, strict=True) if not in_busy)
    ordered = report.prediction is not None and report.prediction.sequence  # which says what each adds
    if not ordered and (of_idle > (summary.gpu_idle_share or 0.0) + _OVERLAP or (any(busy) and of_idle > 0)):
        says.append("shares overlap: fixing one shrinks others")
    return "; ".join(says)


def no_finding(report: Report) -> str:
    """Return that nothing was found where a job is not healthy all the same; else nothing."""
    if not report.judged or report.findings or report.healthy:
        return ""
    of = "step" if report.summary.steps else "time"
    return f"No rule that could be asked found a cause worth 2% of the {of}."
