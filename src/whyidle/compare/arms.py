"""One side of a comparison: a run that was read, measured and judged, or several repeats of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from whyidle.compare.pace import PRINTED_BY, Pace, pace_of
from whyidle.fetch import brought
from whyidle.judge import judge, measured_of
from whyidle.measure import Measured
from whyidle.measure.loss import beside
from whyidle.model.arithmetic import usd_per_million_tokens
from whyidle.model.comparison import Arm
from whyidle.model.evidence import Floats64, Run
from whyidle.model.finding import Report
from whyidle.picture import picture_of
from whyidle.picture.thinning import BUDGET
from whyidle.read import Progress, load

Evidence: TypeAlias = str | Path | Sequence[str | Path]  # of one start of a job: a file, a folder, or several of them

NONE: Final = np.empty(0, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """One start of a job: its evidence, and what was found of it.

    Attributes:
        paths: of the evidence, as they were given.
        pace: its steps; None where nothing tells of steps.
        units: of work that it holds in all, where somebody said so.
    """

    paths: tuple[str, ...]
    run: Run
    measured: Measured
    report: Report
    pace: Pace | None
    units: float | None = None

    @property
    def steady(self) -> Floats64:
        """Return the time of each step after the warm-up, s."""
        return NONE if self.pace is None else self.pace.steady

    @property
    def recorded_s(self) -> float | None:
        """Return the time that the recording holds; None where it tells none."""
        summary = self.report.summary
        return summary.watched_s or summary.window_s or summary.curve_s

    @property
    def samples_per_step(self) -> float | None:
        """Return samples that all ranks take in a step: as they were counted, else as the loader was set."""
        if counted := self._counted("samples") or self.printed_per_step("samples_per_s"):
            return counted
        summary, settings = self.report.summary, self.report.run.settings
        batch, batches = settings.get("batch_size"), summary.batches_per_step
        if isinstance(batch, int) and batch and batches:
            return batch * batches * (self.report.run.world_size or 1)
        return None

    @property
    def tokens_per_step(self) -> float | None:
        """Return tokens that all ranks take in a step."""
        return self._counted("tokens") or self.printed_per_step("tokens_per_s")

    def printed_per_step(self, rate: str) -> float | None:
        """Return how much a step does, in the median, by the rate that a trainer printed beside its time.

        The rate is taken as that of all ranks.
        """
        logs = [{series.name: series for series in curve.series} for curve in self.run.curves if curve.step_log]
        both = [(log["step_time_s"], log[rate]) for log in logs if {"step_time_s", rate} <= log.keys()]
        if not both or self.pace is None or self.pace.source != PRINTED_BY or self.pace.per != "step":
            return None
        times, rates = both[0]
        work = times.value * beside(rates, times)
        work = work[np.isfinite(work) & (work > 0)]
        return float(np.median(work)) if len(work) else None

    def _counted(self, unit: Literal["samples", "tokens"]) -> float | None:
        per_s, step_s = self.report.per_second(unit), self.report.summary.step_time_mean_s
        return per_s * step_s if per_s and step_s else None

    @property
    def doubt(self) -> str:
        """Return why the recording cannot be believed; empty where it can, or a log tells its steps all the same."""
        found = (doubt.message for doubt in self.measured.doubts if doubt.refuse)
        return "" if self.measured.watched.logs else next(found, "")

    @property
    def units_per_step(self) -> float | None:
        """Return units of work in a step, where somebody said how many the recording holds.

        A run that was watched counts its samples itself. Where it does not, its steps are all up to the last.
        """
        if self.units is None or self.pace is None:
            return None
        whole = self.pace.uncut or self.pace
        if not self.measured.watched.logs:
            return self.units / (len(whole.seconds) * whole.interval)
        return None if self.samples_per_step or whole.span is None else self.units / whole.span[1]


def repeat_of(evidence: Evidence, units: float | None = None, progress: Progress | None = None) -> Repeat:
    """Read, measure and judge one start of a job.

    Args:
        evidence: of it.
        units: of work that it holds, where somebody said so.
        progress: told (path, bytes done, bytes in all) while files are read.

    Raises:
        WhyIdleError: when there is nothing to read.
    """
    with brought(evidence, progress) as here:
        run = here.named(load(here.paths, progress))
    given = [evidence] if isinstance(evidence, str | Path) else evidence
    return repeat_from(run, tuple(map(str, given)), units)


def repeat_from(run: Run, paths: tuple[str, ...], units: float | None = None) -> Repeat:
    """Measure and judge one start of a job that was read; what fixes are worth is not predicted, which takes long."""
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    return Repeat(paths, run, measured, report, pace_of(run, measured), units)


def arm_of(
    repeats: Sequence[Repeat], price: float | None = None, gpus: int | None = None, *, picture: bool = False
) -> Arm:
    """Return what a side looks like. Its idle time and its settings are those of the repeat in the middle.

    Args:
        repeats: one, or several.
        price: US dollars per GPU-hour; else the list price of the GPU, where there is one.
        gpus: GPUs that the job rents; else its ranks, else those that were seen.
        picture: whether to draw the repeat in the middle.
    """
    shown = middle(repeats)
    steady = _steps(repeats)
    samples, tokens = rate_of(repeats, "samples"), rate_of(repeats, "tokens")
    hourly = _usd_per_hour(shown.report, price, gpus)
    return Arm(
        paths=tuple(path for one in repeats for path in one.paths),
        run=shown.report.run,
        summary=shown.report.summary,
        steps=sum(len(one.steady) for one in repeats),
        warm_up=max(0 if one.pace is None else one.pace.dropped for one in repeats),
        steps_from=shown.pace.source if shown.pace is not None else "",
        step_time_s=float(np.mean([np.median(times) for times in steady])) if steady else None,
        step_time_mean_s=float(np.mean([times.mean() for times in steady])) if steady else None,
        samples_per_s=samples,
        tokens_per_s=tokens,
        usd_per_million_samples=_usd_per_million(hourly, samples),
        usd_per_million_tokens=_usd_per_million(hourly, tokens),
        picture=picture_of(shown.run, shown.measured, shown.report, BUDGET // 2) if picture else None,
        findings=shown.report.findings,
        not_asked=tuple(unknown.rule for unknown in shown.report.unknown),
    )


def middle(repeats: Sequence[Repeat]) -> Repeat:
    """Return the repeat whose mean step is the middle one."""
    ordered = sorted(repeats, key=lambda one: float(one.steady.mean()) if len(one.steady) else 0.0)
    return ordered[(len(ordered) - 1) // 2]


def rate_of(repeats: Sequence[Repeat], unit: Literal["samples", "tokens"]) -> float | None:
    """Return what all ranks get through per second after the warm-up, by the mean step; None where it is not known."""
    if rates := _steps(repeats, unit.removesuffix("s")):  # which a trainer printed in place of step times
        return 1 / float(np.mean([times.mean() for times in rates]))
    shown, steady = middle(repeats), _steps(repeats)
    per_step = shown.samples_per_step if unit == "samples" else shown.tokens_per_step
    return per_step / float(np.mean([times.mean() for times in steady])) if per_step and steady else None


def _steps(repeats: Sequence[Repeat], per: str = "step") -> list[Floats64]:
    """Return the time of each step (token, sample) of each repeat that has any; none where one is told otherwise."""
    alike = all(one.pace is not None and one.pace.per == per for one in repeats)
    return [one.steady for one in repeats if len(one.steady)] if alike else []


def _usd_per_million(usd_per_hour: float | None, per_s: float | None) -> float | None:
    """Return what a million samples or tokens cost, at so much per hour for all GPUs."""
    return None if usd_per_hour is None or per_s is None else usd_per_million_tokens(1, usd_per_hour, per_s)


def _usd_per_hour(report: Report, price: float | None, gpus: int | None) -> float | None:
    """Return what all GPUs cost per hour; None without a price. A GPU that is split has no list price."""
    if price is None and (listed := report.list_price) is not None:
        price = listed.usd_per_gpu_hour
    return None if price is None else price * (gpus or report.gpus_rented)
