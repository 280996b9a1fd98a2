"""What idle time costs, and what the same work would cost on a busier GPU.

The model is that of fixed busy time: a job has so many GPU-seconds of work, whatever it waits for, so
`wall = busy / utilization` (docs/method.md, cost). It is an upper bound of the gain: a fix may leave other waits.
Money is in US dollars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from whyidle.errors import WhyIdleError
from whyidle.model.arithmetic import usd_per_million_tokens
from whyidle.model.finding import Applied, Asked, Cost, Finding, Predicted, Report
from whyidle.model.hardware import check_rented

TARGETS = (0.6, 0.8, 0.95)
UNITS: Final[tuple[Literal["samples", "tokens"], ...]] = ("samples", "tokens")
YOURS = "your price"  # source of one that was given with the question
SPLIT = "parts of a GPU (MIG)"


@dataclass(frozen=True, slots=True)
class CostRow:
    """The same work at another utilization. None: what it takes to know was not given."""

    busy: float | None  # 0-1
    hours: float | None
    usd: float | None
    idle_usd: float | None  # of it for waiting
    usd_per_million_samples: float | None = None
    usd_per_million_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Bill:
    """What a job costs, how much of that is waiting, and what the same work costs with less of it. None: not given."""

    gpus: int
    usd_per_gpu_hour: float
    hours: float | None
    busy: float | None  # 0-1
    total_usd: float | None
    idle_usd: float | None
    table: tuple[CostRow, ...]
    samples_per_s: float | None = None  # today, of all GPUs
    tokens_per_s: float | None = None

    @property
    def today(self) -> CostRow:
        """Return the row of what is asked about."""
        return _row(self.gpus, self.usd_per_gpu_hour, self.hours, self.busy, self.samples_per_s, self.tokens_per_s)


def check(
    *,
    usd_per_gpu_hour: float | None = None,
    gpus: int | None = None,
    hours: float | None = None,
    busy: float | None = None,
    samples_per_s: float | None = None,
    tokens_per_s: float | None = None,
) -> None:
    """Refuse numbers that cannot be; None is not given.

    Raises:
        WhyIdleError: for a price below 0, no time, no GPU, a busy share outside 0-1, or what is no finite number.
    """
    check_rented(usd_per_gpu_hour, gpus)
    if hours is not None and not (math.isfinite(hours) and hours > 0):
        raise WhyIdleError(f"the time is in hours, more than 0, not {hours:g}", "--hours 24")
    if busy is not None and not 0 < busy <= 1:
        hint = f"--busy {busy / 100:g}, or --busy {busy:g}%" if 2 <= busy <= 100 else "--busy 0.40, or --busy 40%"
        raise WhyIdleError(f"the busy share is above 0 and at most 1, not {busy:g}", hint)
    for name, number in (("samples", samples_per_s), ("tokens", tokens_per_s)):
        if number is not None and not (math.isfinite(number) and number > 0):
            raise WhyIdleError(f"{name} per second are more than 0, not {number:g}", f"--{name}-per-s 1000")


def bill(
    gpus: int,
    usd_per_gpu_hour: float,
    hours: float | None = None,
    busy: float | None = None,
    targets: Iterable[float] = TARGETS,
    *,
    samples_per_s: float | None = None,
    tokens_per_s: float | None = None,
) -> Bill:
    """Return what a job costs, what of it is waiting, and the same work at each target that is above today's.

    Args:
        gpus: GPUs rented.
        usd_per_gpu_hour: US dollars for one GPU for one hour.
        hours: what the job takes today, for what it costs.
        busy: share of that time in which the GPUs work, 0-1, for what of it is waiting, and for the table.
        targets: shares to compare with, 0-1.
        samples_per_s: what all GPUs get through today, for the cost of a million of them.
        tokens_per_s: the same.

    Raises:
        WhyIdleError: for numbers that cannot be, see `check`.
    """
    speeds = (samples_per_s, tokens_per_s)
    check(usd_per_gpu_hour=usd_per_gpu_hour, gpus=gpus, hours=hours, busy=busy)
    check(samples_per_s=samples_per_s, tokens_per_s=tokens_per_s)
    rows = []
    for target in sorted(targets):
        check(busy=target)
        if busy is not None and target > busy:  # then it is done so many times faster
            faster = (None if speed is None else speed * target / busy for speed in speeds)
            rows.append(_row(gpus, usd_per_gpu_hour, hours and hours * busy / target, target, *faster))
    today = _row(gpus, usd_per_gpu_hour, hours, busy, *speeds)
    return Bill(gpus, usd_per_gpu_hour, hours, busy, today.usd, today.idle_usd, tuple(rows), *speeds)


def _row(
    gpus: int,
    usd_per_gpu_hour: float,
    hours: float | None,
    busy: float | None,
    samples_per_s: float | None,
    tokens_per_s: float | None,
) -> CostRow:
    usd = None if hours is None else gpus * usd_per_gpu_hour * hours
    idle = None if usd is None or busy is None else usd * (1 - busy)
    speeds = (samples_per_s, tokens_per_s)
    each = (None if speed is None else usd_per_million_tokens(gpus, usd_per_gpu_hour, speed) for speed in speeds)
    return CostRow(busy, hours, usd, idle, *each)


def price(
    report: Report,
    usd_per_gpu_hour: float | None = None,
    gpus: int | None = None,
    hours: float | None = None,
    source: str = YOURS,
) -> Report:
    """Return the report with `summary.cost` set, where there is idle time and a price for it, and what fixes save.

    Args:
        report: what was judged.
        usd_per_gpu_hour: the real price; without it the list price of the GPU that was seen, if we know one.
        gpus: GPUs that the job rents; without it the world size, else the devices that were seen.
        hours: how long the whole job runs, for its total.
        source: who says the real price.

    Raises:
        WhyIdleError: for numbers that cannot be, see `check`.
    """
    check(usd_per_gpu_hour=usd_per_gpu_hour, gpus=gpus, hours=hours)
    asked = (usd_per_gpu_hour is not None and source == YOURS) or gpus is not None or hours is not None
    listed = report.list_price if usd_per_gpu_hour is None else None
    if listed is not None:
        usd_per_gpu_hour = listed.usd_per_gpu_hour
    source = listed.source if listed is not None else source
    count = gpus or report.gpus_rented
    idle = report.summary.paid_idle_share
    on_gpu = idle is not None or bool(report.run.gpus)
    if usd_per_gpu_hour is not None and on_gpu:
        report = _saved(report, usd_per_gpu_hour * count)
    units: dict[str, float] = {unit: per_s for unit in UNITS if on_gpu and (per_s := report.per_second(unit))}
    if idle is None and not units:
        return _uncosted(report, "no cost: the GPU's idle time was not measured") if asked else report
    if usd_per_gpu_hour is None:
        names = ", ".join(gpu.name for gpu in report.run.gpus if gpu.name) or "a GPU whose name was not recorded"
        names = SPLIT if report.gpu_is_split else names
        return _uncosted(report, f"no cost: no list price for {names}; give --price") if asked else report
    cost = _cost(usd_per_gpu_hour, source, count, idle, hours, units)
    return replace(report, summary=replace(report.summary, cost=cost))


def _cost(
    usd_per_gpu_hour: float, source: str, gpus: int, idle: float | None, hours: float | None, units: Mapping[str, float]
) -> Cost:
    """Return what `price` tells; `units` are those of work that all GPUs get through per second, by name."""
    hourly = usd_per_gpu_hour * gpus
    total = None if hours is None else hourly * hours
    each = {name: usd_per_million_tokens(gpus, usd_per_gpu_hour, number) for name, number in units.items()}
    busy = {} if idle is None else {name: usd * (1 - idle) for name, usd in each.items()}
    return Cost(
        usd_per_gpu_hour,
        source,
        gpus,
        idle_usd_per_hour=None if idle is None else hourly * idle,
        hours=hours,
        total_usd=total,
        idle_usd=None if total is None or idle is None else total * idle,
        usd_per_million_samples=each.get("samples"),
        usd_per_million_tokens=each.get("tokens"),
        usd_per_million_samples_busy=busy.get("samples"),
        usd_per_million_tokens_busy=busy.get("tokens"),
    )


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


def _uncosted(report: Report, why: str) -> Report:
    return replace(report, warnings=(*report.warnings, why))
