"""What idle time costs, and what the same work would cost on a busier GPU.

The model is that of fixed busy time: a job has so many GPU-seconds of work, whatever it waits for, so
`wall = busy / utilization` (docs/method.md, cost). It is an upper bound of the gain: a fix may leave other waits.
Money is in US dollars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from whyidle.errors import WhyIdleError
from whyidle.model.finding import OWN_CODE, Applied, Asked, Cost, Finding, Predicted, Report, Summary
from whyidle.model.hardware import ListPrice, list_price

TARGETS = (0.6, 0.8, 0.95)
SPLIT = "parts of a GPU (MIG)"


@dataclass(frozen=True, slots=True)
class CostRow:
    """The same work at another utilization."""

    busy: float  # 0-1
    hours: float
    usd: float


@dataclass(frozen=True, slots=True)
class Bill:
    """What a job costs, how much of that is waiting, and what the same work costs with less of it."""

    gpus: int
    usd_per_gpu_hour: float
    hours: float
    busy: float  # 0-1
    total_usd: float
    idle_usd: float
    table: tuple[CostRow, ...]


def check(
    *,
    usd_per_gpu_hour: float | None = None,
    gpus: int | None = None,
    hours: float | None = None,
    busy: float | None = None,
) -> None:
    """Refuse numbers that cannot be; None is not given.

    Raises:
        WhyIdleError: for a price below 0, no time, no GPU, a busy share outside 0-1, or what is no finite number.
    """
    if usd_per_gpu_hour is not None and not (math.isfinite(usd_per_gpu_hour) and usd_per_gpu_hour >= 0):
        raise WhyIdleError(f"the price is US dollars per GPU-hour, 0 or more, not {usd_per_gpu_hour:g}", "--price 2.60")
    if gpus is not None and gpus < 1:
        raise WhyIdleError(f"the number of GPUs is 1 or more, not {gpus}", "--gpus 8")
    if hours is not None and not (math.isfinite(hours) and hours > 0):
        raise WhyIdleError(f"the time is in hours, more than 0, not {hours:g}", "--hours 24")
    if busy is not None and not 0 < busy <= 1:
        hint = f"--busy {busy / 100:g}, or --busy {busy:g}%" if 1 < busy <= 100 else "--busy 0.40, or --busy 40%"
        raise WhyIdleError(f"the busy share is above 0 and at most 1, not {busy:g}", hint)


def what_if(
    gpus: int, usd_per_gpu_hour: float, hours: float, busy: float, targets: Iterable[float] = TARGETS
) -> tuple[CostRow, ...]:
    """Return what the same work takes and costs at each target utilization that is above today's.

    Args:
        gpus: GPUs rented.
        usd_per_gpu_hour: US dollars for one GPU for one hour.
        hours: what the job takes today.
        busy: share of that time in which the GPUs work, 0-1.
        targets: shares to compare with, 0-1.
    """
    check(usd_per_gpu_hour=usd_per_gpu_hour, gpus=gpus, hours=hours, busy=busy)
    work_hours = hours * busy
    rows = []
    for target in sorted(targets):
        check(busy=target)
        if target > busy:
            rows.append(CostRow(target, work_hours / target, gpus * usd_per_gpu_hour * work_hours / target))
    return tuple(rows)


def bill(gpus: int, usd_per_gpu_hour: float, hours: float, busy: float, targets: Iterable[float] = TARGETS) -> Bill:
    """Return what a job costs, what of it is waiting, and the table of `what_if`; arguments as there."""
    table = what_if(gpus, usd_per_gpu_hour, hours, busy, targets)
    total = gpus * usd_per_gpu_hour * hours
    return Bill(gpus, usd_per_gpu_hour, hours, busy, total, total * (1 - busy), table)


def price(
    report: Report, usd_per_gpu_hour: float | None = None, gpus: int | None = None, hours: float | None = None
) -> Report:
    """Return the report with `summary.cost` set, where there is idle time and a price for it, and what fixes save.

    Args:
        report: what was judged.
        usd_per_gpu_hour: the real price; without it the list price of the GPU that was seen, if we know one.
        gpus: GPUs that the job rents; without it the world size, else the devices that were seen.
        hours: how long the whole job runs, for its total.

    Raises:
        WhyIdleError: for numbers that cannot be, see `check`.
    """
    check(usd_per_gpu_hour=usd_per_gpu_hour, gpus=gpus, hours=hours)
    idle = _idle(report.summary)
    asked = usd_per_gpu_hour is not None or gpus is not None or hours is not None
    listed = _listed(report) if usd_per_gpu_hour is None else None
    if listed is not None:
        usd_per_gpu_hour = listed.usd_per_gpu_hour
    source = listed.source if listed is not None else "your price"
    count = gpus or report.run.world_size or report.summary.gpu_count or 1
    hourly = (usd_per_gpu_hour or 0.0) * count
    if usd_per_gpu_hour is not None and (idle is not None or report.run.gpus):
        report = _saved(report, hourly)
    if idle is None:
        return _uncosted(report, "no cost: the GPU's idle time was not measured") if asked else report
    if usd_per_gpu_hour is None:
        names = ", ".join(gpu.name for gpu in report.run.gpus if gpu.name) or "a GPU whose name was not recorded"
        names = SPLIT if _split(report) else names
        return _uncosted(report, f"no cost: no list price for {names}; give --price") if asked else report
    cost = Cost(
        usd_per_gpu_hour,
        source,
        count,
        idle_usd_per_hour=hourly * idle,
        hours=hours,
        total_usd=None if hours is None else hourly * hours,
        idle_usd=None if hours is None else hourly * hours * idle,
    )
    return replace(report, summary=replace(report.summary, cost=cost))


def _idle(summary: Summary) -> float | None:
    """Return the idle share that is paid for: of the whole run, where a curve tells that its traced steps idle less."""
    traced, run = summary.gpu_idle_share, summary.curve_idle_share if summary.on_gpu is not False else None
    if traced is None or run is None:
        return run if traced is None else traced
    return run if run - traced >= OWN_CODE else traced


def _saved(report: Report, hourly: float) -> Report:
    """Return the report with what each prediction saves, in US dollars per hour, at `hourly` for all GPUs."""
    now = report.prediction.step_time_mean_s if report.prediction is not None else None

    def told(predicted: Predicted) -> Predicted:
        share = 1 - predicted.step_time_mean_s.likely / now if now else predicted.saved_share
        return replace(predicted, usd_per_hour_saved=hourly * max(share, 0.0))

    def finding(found: Finding) -> Finding:
        fixes = (replace(fix, predicted=told(fix.predicted)) if fix.predicted else fix for fix in found.fixes)
        return replace(found, fixes=tuple(fixes))

    def applied(step: Applied) -> Applied:
        return replace(step, predicted=told(step.predicted))

    def answer(asked: Asked) -> Asked:
        return replace(asked, predicted=told(asked.predicted)) if asked.predicted else asked

    report = replace(report, findings=tuple(map(finding, report.findings)))
    if report.prediction is None:
        return report
    together = report.prediction
    together = replace(
        together,
        sequence=tuple(map(applied, together.sequence)),
        joint=told(together.joint) if together.joint else None,
        asked=tuple(map(answer, together.asked)),
    )
    return replace(report, prediction=together)


def _listed(report: Report) -> ListPrice | None:
    """Return the one list price that holds for every GPU seen; one that is split has none, whoever rents its parts."""
    if _split(report):
        return None
    prices = {list_price(gpu.name) for gpu in report.run.gpus}
    return prices.pop() if len(prices) == 1 else None


def _split(report: Report) -> bool:
    return any(device.instance for device in report.summary.devices)


def _uncosted(report: Report, why: str) -> Report:
    return replace(report, warnings=(*report.warnings, why))
