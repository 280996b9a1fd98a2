"""A job on so many GPUs: what its runs recorded, and whether runs of several sizes are of the same job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from whyidle.compare.arms import Repeat, repeat_from
from whyidle.compare.bootstrap import LEAST, mean_of_runs
from whyidle.compare.confounders import between
from whyidle.compare.lost import Shares, shares
from whyidle.compare.pace import Unit
from whyidle.compare.work import PER_GPU, SAME_WORK
from whyidle.errors import WhyIdleError
from whyidle.measure import Measured, names
from whyidle.model.comparison import Confounder, Interval
from whyidle.model.evidence import Floats64, Run
from whyidle.model.finding import Report
from whyidle.model.scaling import Kind
from whyidle.read.trainer_patterns import SUM_RANKS

# What differs between sizes of one job by itself, or is told apart from the rest.
BY_SIZE: Final = frozenset(
    ("evidence", "world_size", "ranks", "gpus", "node", "cpus_allowed", "cpus_taken", "steps_from")
)
SUPPOSED: Final = ("tokens_per_s", "samples_per_s")
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
class Sized:
    """One run, measured, and on how many GPUs it was."""

    path: str
    run: Repeat
    gpus: int
    printed_each: bool = False  # what a trainer printed is of each GPU, as somebody said

    @property
    def per(self) -> Unit:
        """Return of what the times are."""
        return "step" if self.run.pace is None else self.run.pace.per

    @property
    def samples(self) -> float | None:
        """Return samples in a step, all GPUs together."""
        return self._whole(self.run.samples_per_step, "samples_per_s")

    @property
    def tokens(self) -> float | None:
        """Return tokens in a step, all GPUs together."""
        each = self.run.printed_per_step(PER_GPU)
        return self._whole(self.run.tokens_per_step, "tokens_per_s") if each is None else each * self.gpus

    def _whole(self, per_step: float | None, rate: str) -> float | None:
        """Return the work of all GPUs, by that of what a trainer may have printed of each."""
        printed = self.run.printed_per_step(rate)
        return per_step * self.gpus if per_step and self.printed_each and printed == per_step else per_step

    @property
    def supposed(self) -> bool:
        """Say whether work is told by what a trainer printed, and nobody knows whether of one GPU or of all."""
        if self.printed_each or (self.per == "step" and not any(map(self.run.printed_per_step, SUPPOSED))):
            return False
        logs = [curve for curve in self.run.run.curves if curve.step_log]
        return not all(any(fact.value in SUM_RANKS for fact in curve.facts) for curve in logs)

    @property
    def cpus_per_rank(self) -> float | None:
        """Return how many CPUs a rank has for itself; None where that was not recorded."""
        m = self.run.measured.measurements
        if "cpus_allowed" not in m or "ranks_on_machine" not in m:
            return None
        return m.number("cpus_allowed") / max(m.number("ranks_on_machine"), 1.0)


def sized(path: str, run: Run, gpus: int | None = None, *, printed_each: bool = False) -> Sized:
    """Measure a run.

    Args:
        path: what a person calls it.
        run: the evidence.
        gpus: that it ran on; None takes what was recorded.
        printed_each: what a trainer printed is of each GPU, not of all together.

    Raises:
        WhyIdleError: nothing tells how long its steps take, or on how many GPUs it ran.
    """
    found = repeat_from(run, (path,))
    if not len(found.steady):
        raise WhyIdleError(f"{path}: nothing tells how long its steps take", "run the job under `whyidle run`")
    count = gpus or size_of(found.measured, found.report)
    if count is None:
        raise WhyIdleError(f"{path}: it was not recorded on how many GPUs it ran", GPUS)
    return Sized(path, found, count, printed_each)


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


def differences(runs: Sequence[Sized]) -> tuple[list[str], list[str]]:
    """Return what makes these runs no runs of one job, or not to be believed; and what one has to know beside that.

    It is what `whyidle compare` finds between the first of them and each other one, but for what has to differ: their
    number of ranks, machines, and what each of these has for itself. Traces do not tell whether the models are the
    same: ranks that share a batch compute a part of it.
    """
    found: dict[str, list[str]] = {"blocks": [], "doubts": []}
    for one in runs:
        if one.run.doubt:
            found["blocks"].append(f"{one.path} cannot be believed: {one.run.doubt.rstrip('.')}")
    for one in runs[1:]:
        for each in between(runs[0].run, one.run):
            if each.weight in found and each.name not in BY_SIZE and _tells(each, runs[0], one):
                found[each.weight].append(f"{runs[0].path}, {one.path}: {each.message.rstrip('.')}")
    return found["blocks"], found["doubts"]


def _tells(found: Confounder, *runs: Sized) -> bool:
    return found.name != "model" or all("model" in one.run.report.run.settings for one in runs)


def kind_of(runs: Sequence[Sized]) -> tuple[Kind | None, str]:
    """Return whether runs keep the batch of all GPUs (strong) or of each (weak), and why that is said."""
    for unit in ("samples", "tokens"):
        batches = [getattr(one, unit) for one in runs]
        if None not in batches:
            break
    else:
        return None, "batch sizes were not recorded"
    gpus = [one.gpus for one in runs]
    whole, each = batches, [batch / count for count, batch in zip(gpus, batches, strict=True)]
    kinds: tuple[tuple[Kind, list[float], str], ...] = (("strong", whole, "in all"), ("weak", each, "per GPU"))
    for kind, sizes, of in kinds:
        if max(sizes) - min(sizes) <= SAME_WORK * max(sizes):
            said = f"{sizes[0]:,.0f}" + (" tokens" if unit == "tokens" else "")
            return kind, f"the same batch {of}: {said}"
    told = ", ".join(f"{batch:,.0f} on {count}" for count, batch in zip(gpus, batches, strict=True))
    return "mixed", f"batches in all: {told}"


def units_of(runs: Sequence[Sized], kind: Kind | None) -> tuple[str, list[float]]:
    """Return the unit of work that all runs tell, and how much of it is in a step of each.

    Raises:
        WhyIdleError: there is none.
    """
    rates = {one.per for one in runs}
    if rates != {"step"}:
        (rate, *others) = sorted(rates)
        if others:
            raise WhyIdleError(f"these runs have no unit in common: one per {rate}, one per {others[0]}", UNIT)
        return f"{rate}s", [float(one.gpus) if one.printed_each else 1.0 for one in runs]
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


def point_of(runs: Sequence[tuple[Sized, float]]) -> Point:
    """Return what repeats on the same number of GPUs tell together; with each comes its work per step."""
    first = runs[0][0]
    # repeats of other batch sizes are told by their time for as much work as the first's
    units = runs[0][1]
    times = tuple(one.run.steady * (units / work) for one, work in runs)
    step = mean_of_runs(times)
    known = step.low > 0 and step.high < math.inf
    rate = (
        Interval(units / step.high, units / step.likely, units / step.low)
        if known
        else Interval(-math.inf, units / step.likely, math.inf)
    )
    parts = shares(first.run.measured, first.gpus)
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


def listed(runs: Sequence[Sized]) -> tuple[float | None, str]:
    """Return the list price of the runs' GPUs, US dollars per GPU-hour, and its source; (None, "") without one."""
    prices = {one.run.report.list_price for one in runs if one.run.report.run.gpus}
    price = prices.pop() if len(prices) == 1 else None
    return (None, "") if price is None else (price.usd_per_gpu_hour, price.source)


def doubts(runs: Sequence[Sized]) -> Iterator[str]:
    """Yield what a reader has to know of these runs."""
    for one in runs:
        steps, ranks = len(one.run.steady), one.run.report.run.world_size
        if steps < LEAST:
            yield f"{one.path}: only {steps} steps count, so nothing tells how much they vary."
        if ranks and ranks != one.gpus:
            yield f"{one.path}: its recorded number of ranks is {ranks}; {one.gpus} GPUs are counted, as you say."
    if any(one.run.report.summary.on_gpu is False for one in runs):
        yield "these runs computed on no GPU: what is called a GPU here is a rank."
    if any(one.supposed for one in runs):
        yield (
            "throughput that a trainer printed is taken as that of all GPUs together; --printed-per-gpu if it is that "
            "of each."
        )
    cpus = {one.gpus: one.cpus_per_rank for one in runs}
    if all(cpus.values()) and len({round(value or 0.0, 2) for value in cpus.values()}) > 1:
        told = ", ".join(f"{value:.3g} on {gpus}" for gpus, value in sorted(cpus.items()))
        yield f"CPUs per rank differ: {told}; a rank's DataLoader has to live with fewer."
