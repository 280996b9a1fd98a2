"""Run directories of a sweep -> its cells: what each value cost and gave, beside the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

import numpy as np

from whyidle.compare.bootstrap import mean_of_runs, ratio_of_means
from whyidle.measure import Measured
from whyidle.model.arithmetic import usd_per_million_tokens
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64, Run, Value
from whyidle.model.trial import Cell, Unit
from whyidle.sweep.budget import Rate
from whyidle.sweep.folder import Outcome
from whyidle.sweep.plan import FEWEST_STEPS
from whyidle.sweep.recorded import Recorded

UNITS: Final[tuple[Unit, ...]] = ("samples", "tokens", "steps")  # the best first


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One job of a sweep, measured. None is not measured."""

    folder: str  # below the sweep's
    outcome: Outcome
    seconds: Floats64  # steps after the warm-up
    per_step: dict[Unit, float]  # how much of each unit a step does
    settings: Mapping[str, Value]  # as they were seen in the job
    in_force: frozenset[str]  # settings of `whyidle run --set` that were seen to be, somewhere in the job
    warnings: tuple[str, ...]  # of its recording
    epoch_steps: float | None  # of the training loader, from its length
    measured: Cell  # what is read off the run, but for what needs other trials


def trial(folder: str, outcome: Outcome, found: Recorded | None) -> Trial:
    """Return a job with what its run directory tells; None is that it has none."""
    bare = Cell(outcome.params, outcome.status)
    if found is None:
        return Trial(folder, outcome, np.empty(0), {}, {}, frozenset(), (), None, bare)
    m = found.measured.measurements

    def number(name: str) -> float | None:
        return m.number(name) if name in m else None

    batch_s, cpu_share = number("batch_seconds"), number("batch_cpu_share")
    return Trial(
        folder,
        outcome,
        found.steady,
        _per_step(number("samples_per_s"), number("tokens_per_s"), number("step_time_mean_s")),
        found.measured.settings,
        frozenset(fact.subject for log in found.run.logs for fact in log.facts if fact.name == "set"),
        found.run.warnings,
        _epoch_steps(number("batches_per_epoch"), number("loader_batches_per_step")),
        replace(
            bare,
            data_wait_share=number("data_wait_share"),
            gpu_idle_share=_gpu_idle(found.measured),
            peak_memory_bytes=_whole(number("peak_memory_bytes")) or _most_seen(found.run),
            memory_bytes=_memory(found.run),
            peak_host_memory_bytes=_host_memory(found.run),
            cpu_busy_share=number("job_cpu_share"),
            io_wait_share=number("batch_blocked_share"),
            fetch_s=batch_s,
            fetch_cv=number("batch_spread"),
            fetch_cpu_s=None if batch_s is None or cpu_share is None else batch_s * cpu_share,
        ),
    )


def cells(trials: Sequence[Trial], rate: Rate) -> tuple[Cell, ...]:
    """Return the cells of a sweep, in the order in which their values were first tried; repeats are pooled.

    Throughput is in the best unit that every cell knows, so that cells can be compared.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Trial]] = {}
    for one in trials:
        groups.setdefault(tuple(one.outcome.params.items()), []).append(one)
    known = [one for one in trials if len(one.seconds) >= FEWEST_STEPS]
    unit: Unit = next((unit for unit in UNITS if all(unit in one.per_step for one in known)), "steps")
    base = next(
        (usable for group in groups.values() if (usable := _usable(group)) and usable[0].outcome.status == "ok"), []
    )
    return tuple(_cell(group, unit, base, rate) for group in groups.values())


def _cell(group: Sequence[Trial], unit: Unit, base: Sequence[Trial], rate: Rate) -> Cell:
    """Return the cell of one combination of values, from all its jobs."""
    usable = _usable(group)
    told = next((one for one in group if one.outcome.status == "ok"), group[0])
    costs = [rate.usd(one.outcome.seconds, one.outcome.gpus) for one in group]
    cell = replace(
        pooled([one.measured for one in usable or group]),
        status=told.outcome.status,
        folder=told.folder,
        why=told.outcome.why,
        runs=len(usable),
        steps=sum(len(one.seconds) for one in usable),
        settled=bool(usable) and all(one.outcome.settled for one in usable),
        seconds=sum(one.outcome.seconds for one in group),
        usd=sum(cost for cost in costs if cost is not None) if None not in costs else None,
        throughput_unit=unit,
    )
    if not usable:
        return cell
    pace, first = _per_unit(usable, unit), _per_unit(base, unit)
    per_s = _inverse(mean_of_runs(pace))
    gpus = usable[0].outcome.gpus or rate.gpus or 1
    price = rate.usd_per_gpu_hour
    return replace(
        cell,
        step_time_s=float(np.median(np.concatenate([one.seconds for one in usable]))),
        step_time_mean_s=mean_of_runs([one.seconds for one in usable]),
        throughput=per_s,
        usd_per_million=None if price is None or unit == "steps" else usd_per_million_tokens(gpus, price, per_s.likely),
        speedup=ratio_of_means(first, pace) if first else None,
    )


def pooled(cells: Sequence[Cell]) -> Cell:
    """Return what several jobs of the same values measured: the mean of shares and times, the largest memory."""

    def mean(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    def largest(values: Iterable[int | None]) -> int | None:
        return max((value for value in values if value is not None), default=None)

    return replace(
        cells[0],
        data_wait_share=mean(cell.data_wait_share for cell in cells),
        gpu_idle_share=mean(cell.gpu_idle_share for cell in cells),
        cpu_busy_share=mean(cell.cpu_busy_share for cell in cells),
        io_wait_share=mean(cell.io_wait_share for cell in cells),
        fetch_s=mean(cell.fetch_s for cell in cells),
        fetch_cv=mean(cell.fetch_cv for cell in cells),
        fetch_cpu_s=mean(cell.fetch_cpu_s for cell in cells),
        peak_memory_bytes=largest(cell.peak_memory_bytes for cell in cells),
        memory_bytes=largest(cell.memory_bytes for cell in cells),
        peak_host_memory_bytes=largest(cell.peak_host_memory_bytes for cell in cells),
    )


def _usable(group: Iterable[Trial]) -> list[Trial]:
    """Return the jobs of which there are steps: those that are ok, or if there are none what a failed one shows."""
    there = [one for one in group if len(one.seconds) >= FEWEST_STEPS]
    return [one for one in there if one.outcome.status == "ok"] or there


def _inverse(interval: Interval) -> Interval:
    low, high = interval.low, interval.high
    return Interval(1 / high, 1 / interval.likely, 1 / low if low > 0 else float("inf"))


def _per_unit(trials: Sequence[Trial], unit: Unit) -> list[Floats64]:
    """Return the seconds that each step took for one sample, token or step."""
    return [one.seconds / one.per_step.get(unit, 1.0) for one in trials]


def _per_step(samples_per_s: float | None, tokens_per_s: float | None, step_s: float | None) -> dict[Unit, float]:
    per_step: dict[Unit, float] = {"steps": 1.0}
    rates: dict[Unit, float | None] = {"samples": samples_per_s, "tokens": tokens_per_s}
    for unit, per_s in rates.items():
        if per_s and step_s:
            per_step[unit] = per_s * step_s
    return per_step


def _epoch_steps(batches: float | None, per_step: float | None) -> float | None:
    return batches / per_step if batches and per_step else None


def _gpu_idle(measured: Measured) -> float | None:
    """Return the idle share of the GPU by the trace, else by NVML's samples, which hold gaps of ms for busy."""
    m = measured.measurements
    if "gpu_idle_share" in m:
        return m.number("gpu_idle_share")
    return 1 - m.number("utilization_mean_share") if "utilization_mean_share" in m else None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _most_seen(run: Run) -> int | None:
    """Return the most memory that one device held by what NVML saw: other jobs' memory is in it."""
    seen = [_largest(one.value) for one in run.series if one.name == "memory_used_bytes" and one.device is not None]
    return max((value for value in seen if value), default=None)


def _memory(run: Run) -> int | None:
    """Return the memory of a device of the job; of unlike ones the smallest, which is full first."""
    told = [
        int(fact.value)
        for node in run.nodes
        for fact in node.facts
        if fact.name == "memory_bytes" and fact.subject.startswith("gpu ") and isinstance(fact.value, int | float)
    ]
    return min(told, default=None)


def _host_memory(run: Run) -> int | None:
    """Return the most memory that all processes of the job held together, by the samples of their resident sizes."""
    ours = [one for one in run.series if one.name == "memory_bytes" and one.pid is not None]
    if not ours:
        return None
    times, place = np.unique(np.concatenate([one.time for one in ours]), return_inverse=True)
    values = np.nan_to_num(np.concatenate([one.value for one in ours]))
    return int(np.bincount(place, weights=values, minlength=len(times)).max())


def _largest(values: Floats64) -> int | None:
    known = values[~np.isnan(values)]
    return int(known.max()) if len(known) else None
