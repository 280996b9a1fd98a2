"""A job on so many GPUs: what its runs recorded, and whether runs of several sizes are of the same job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from whyidle.compare.bootstrap import LEAST, mean_of_runs
from whyidle.compare.lost import Shares, shares
from whyidle.compare.pace import Pace, pace_of
from whyidle.errors import WhyIdleError
from whyidle.judge import judge, measured_of
from whyidle.measure import Measured, names
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Floats64, Run
from whyidle.model.finding import Report
from whyidle.model.hardware import list_price
from whyidle.model.scaling import Kind

SAME: Final = 0.02  # batch sizes differ by less: the last batch of an epoch is smaller (judgement)
SHARDED: Final = ("fsdp", "fully", "deepspeed")  # wrappers whose ranks hold a part of the parameters each
GPUS: Final = "--gpus 1,4: one number for each run, in order"


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """What is known of the job on so many GPUs."""

    gpus: int
    throughput: Interval  # units of work per second, all GPUs together
    times: tuple[Floats64, ...] = ()  # s per step, a series for each run; none where only numbers are known
    units: float = 1.0  # of work in a step
    shares: Shares = field(default_factory=Shares)
    paths: tuple[str, ...] = ()
    batch: float | None = None  # samples in a step, all GPUs together
    cpus_per_rank: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One run, measured."""

    path: str
    report: Report
    measured: Measured
    pace: Pace
    gpus: int

    @property
    def samples(self) -> float | None:
        """Return samples in a step, all GPUs together."""
        s, batch = self.report.summary, self.report.run.settings.get("batch_size")
        if s.samples_per_s and s.step_time_mean_s:
            return s.samples_per_s * s.step_time_mean_s
        if not self.measured.watched.logs or not isinstance(batch, int | float):
            return self.printed("samples_per_s")
        return float(batch) * self.gpus * (s.batches_per_step or 1.0)

    @property
    def tokens(self) -> float | None:
        """Return tokens in a step, all GPUs together."""
        s = self.report.summary
        if s.tokens_per_s and s.step_time_mean_s:
            return s.tokens_per_s * s.step_time_mean_s
        return self.printed("tokens_per_s")

    def printed(self, name: str) -> float | None:
        """Return how much is in a step by the rate that a trainer printed beside its step times."""
        logs = [curve for curve in self.measured.curves.curves if curve.step_log]
        rates = [series.value for curve in logs for series in curve.series if series.name == name]
        if not rates or self.pace.per != "step" or not np.isfinite(rates[0]).any():
            return None
        return float(np.nanmedian(rates[0]) * np.median(self.pace.seconds))

    @property
    def cpus_per_rank(self) -> float | None:
        """Return the CPUs that each training process of a machine has, the workers of its loader among them."""
        m = self.measured.measurements
        if "cpus_allowed" not in m or "ranks_on_machine" not in m:
            return None
        return m.number("cpus_allowed") / max(m.number("ranks_on_machine"), 1.0)

    @property
    def models(self) -> tuple[str, ...]:
        """Return the GPUs' names, where they were recorded."""
        return tuple(sorted({gpu.name for gpu in self.report.run.gpus if gpu.name and gpu.name != "unknown GPU"}))


def recorded(path: str, run: Run, gpus: int | None = None) -> Recorded:
    """Measure a run.

    Args:
        path: what a person calls it.
        run: the evidence.
        gpus: that it ran on; None takes what was recorded.

    Raises:
        WhyIdleError: nothing tells how long its steps take, or on how many GPUs it ran.
    """
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    pace = pace_of(run, measured)
    if pace is None or not len(pace.steady):
        raise WhyIdleError(f"{path}: nothing tells how long its steps take", "run the job under `whyidle run`")
    count = gpus or size_of(measured, report)
    if count is None:
        raise WhyIdleError(f"{path}: it was not recorded on how many GPUs it ran", GPUS)
    return Recorded(path, report, measured, pace, count)


def size_of(measured: Measured, report: Report) -> int | None:
    """Return on how many GPUs a run was; None where that is not known.

    A recording of one process that never talks to another is the whole job, though no world size stands in it.
    """
    if report.run.world_size:
        return report.run.world_size
    talks = any(len(a.t.device_like(names.COLLECTIVE)) for a in measured.analyses)
    processes = max(len(measured.analyses), len(measured.watched.logs))
    if talks or processes != 1:
        return None
    return max(len(measured.devices), 1)


def same_job(runs: Sequence[Recorded]) -> None:
    """Refuse runs of different models or on different GPUs.

    Raises:
        WhyIdleError: for these.
    """
    gpus = {one.models: one.path for one in runs if one.models}
    if len(gpus) > 1:
        said = "; ".join(f"{path}: {', '.join(models)}" for models, path in gpus.items())
        raise WhyIdleError(f"these runs are on different GPUs: {said}", "compare runs on the same GPU")
    for name in ("model", "parameters", "parameters_trainable"):
        if name != "model" and any(_sharded(one) for one in runs):
            continue
        values = {one.report.run.settings[name]: one.path for one in runs if name in one.report.run.settings}
        if len(values) > 1:
            said = "; ".join(f"{path}: {value}" for value, path in values.items())
            raise WhyIdleError(f"these runs train different models ({name}): {said}", "give runs of one job")


def _sharded(one: Recorded) -> bool:
    wrapper = str(one.report.run.settings.get("wrapper", "")).lower()
    return any(word in wrapper for word in SHARDED)


def kind_of(runs: Sequence[Recorded]) -> tuple[Kind | None, str]:
    """Return whether runs keep the batch of all GPUs (strong) or of each (weak), and why that is said."""
    batches = [(one.gpus, one.samples or one.tokens) for one in runs]
    known = [(gpus, batch) for gpus, batch in batches if batch is not None]
    if len(known) < len(runs):
        return None, "batch sizes were not recorded"
    whole, each = [batch for _, batch in known], [batch / gpus for gpus, batch in known]
    for kind, sizes, of in (("strong", whole, "in all"), ("weak", each, "per GPU")):
        if max(sizes) - min(sizes) <= SAME * max(sizes):
            return ("strong" if kind == "strong" else "weak"), f"the same batch {of}: {sizes[0]:,.0f}"
    return "mixed", f"batches in all: {', '.join(f'{batch:,.0f} on {gpus}' for gpus, batch in known)}"


def units_of(runs: Sequence[Recorded], kind: Kind | None) -> tuple[str, list[float]]:
    """Return the unit of work that all runs tell, and how much of it is in a step of each.

    Raises:
        WhyIdleError: there is none.
    """
    rates = {one.pace.per for one in runs}
    if rates != {"step"}:
        (rate, *others) = sorted(rates)
        if others:
            raise WhyIdleError(f"these runs have no unit in common: one per {rate}, one per {others[0]}", UNIT)
        return f"{rate}s", [1.0] * len(runs)
    for unit in ("tokens", "samples"):
        values = [getattr(one, unit) for one in runs]
        if all(values):
            return unit, values
    if kind == "strong":
        return "steps", [1.0] * len(runs)
    if kind == "weak":
        return "batches of one GPU", [float(one.gpus) for one in runs]
    silent = next(one.path for one in runs if not one.samples)
    raise WhyIdleError(f"{silent}: it was not recorded how many samples a step takes", UNIT)


UNIT: Final = "--kind weak where each GPU takes the same batch at every size, --kind strong where all together do"


def point_of(runs: Sequence[tuple[Recorded, float]]) -> Point:
    """Return what repeats on the same number of GPUs tell together; with each comes its work per step."""
    first = runs[0][0]
    # repeats of other batch sizes are told by their time for as much work as the first's
    units = runs[0][1]
    times = tuple(one.pace.steady * (units / work) for one, work in runs)
    step = mean_of_runs(times)
    known = step.low > 0 and step.high < math.inf
    rate = (
        Interval(units / step.high, units / step.likely, units / step.low)
        if known
        else Interval(-math.inf, units / step.likely, math.inf)
    )
    parts = shares(first.measured, first.gpus)
    return Point(
        gpus=first.gpus,
        throughput=rate,
        times=times,
        units=units,
        shares=parts,
        paths=tuple(one.path for one, _ in runs),
        batch=first.samples,
        cpus_per_rank=first.cpus_per_rank,
    )


def listed(runs: Sequence[Recorded]) -> tuple[float | None, str]:
    """Return the list price of the runs' GPUs, US dollars per GPU-hour, and its source; (None, "") without one."""
    prices = {list_price(name) for one in runs for name in one.models}
    price = prices.pop() if len(prices) == 1 else None
    return (None, "") if price is None else (price.usd_per_gpu_hour, price.source)


def doubts(runs: Sequence[Recorded]) -> Iterator[str]:
    """Yield what a reader has to know of these runs."""
    for one in runs:
        steps = len(one.pace.steady)
        if steps < LEAST:
            yield f"{one.path}: only {steps} steps count, so nothing tells how much they vary."
        yield from (f"{one.path}: {doubt.message}" for doubt in one.measured.doubts if doubt.refuse)
    if any(one.report.summary.on_gpu is False for one in runs):
        yield "these runs computed on no GPU: what is called a GPU here is a rank."
    if any(one.pace.per != "step" or one.printed("tokens_per_s") or one.printed("samples_per_s") for one in runs):
        yield "throughput that a trainer printed is taken as that of all GPUs together."
    cpus = {one.gpus: one.cpus_per_rank for one in runs}
    if all(cpus.values()) and len({round(value or 0.0, 2) for value in cpus.values()}) > 1:
        told = ", ".join(f"{value:.3g} on {gpus}" for gpus, value in sorted(cpus.items()))
        yield f"CPUs per rank differ: {told}; a rank's DataLoader has to live with fewer."
