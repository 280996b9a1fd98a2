"""What a fix was said to be worth in a job that was watched, against the job in which it was made.

`bench/pairs.py` records such jobs. The fix that the cure made is named here by its finding and its place among the
fixes, since a finding may offer several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from whyidle.judge import predicted
from whyidle.measure import measure
from whyidle.model.finding import Estimate, Finding
from whyidle.read import load
from whyidle.rules import ask


@dataclass(frozen=True)
class Cure:
    """A change that was really made: from one cell to another of a pair, and which fix that is."""

    pair: str
    before: str
    after: str
    rule: str
    fix: int = 0
    made: tuple[tuple[str, float], ...] = ()  # coefficients of the change that was made, where it was another amount


CURES = (
    Cure("loader", "workers-0", "workers-1", "input.workers_zero"),
    Cure("workers", "one", "two", "input.workers_too_few"),
    Cure("transform", "slow", "cached", "input.cpu_transform"),
    Cure("storage", "far", "near", "input.storage", 1),
    Cure("checkpoint", "every-step", "every-50", "pause.checkpoint_sync", made=(("factor", 1 / 50), ("fewer", 50.0))),
    Cure("threads", "eight-each", "one-each", "host.cpu_oversubscription"),
    Cure("epochs", "again", "persistent", "input.worker_startup"),
)


@dataclass(frozen=True)
class Told:
    """What was predicted of a cure and what it did: step times in s, means and medians."""

    cure: Cure
    was: float
    mean: float
    median: float
    predicted_mean: Estimate | None  # None: not priced
    predicted_median: Estimate | None
    why_not: str = ""

    @property
    def error(self) -> float | None:
        """Return the predicted mean step over that of the cured job, less 1."""
        return None if self.predicted_mean is None else self.predicted_mean.likely / self.mean - 1

    @property
    def median_error(self) -> float | None:
        return None if self.predicted_median is None else self.predicted_median.likely / self.median - 1

    @property
    def covered(self) -> bool | None:
        """Say whether the mean lies in the interval of 80%."""
        return None if self.predicted_mean is None else self.predicted_mean.low <= self.mean <= self.predicted_mean.high

    @property
    def saving_error(self) -> float | None:
        """Return the predicted saving over that of the cure, less 1."""
        if self.predicted_mean is None or self.mean == self.was:
            return None
        return (self.was - self.predicted_mean.likely) / (self.was - self.mean) - 1


def _as_made(finding: Finding, cure: Cure) -> Finding:
    """Return the finding with the fix as it was made."""
    if finding.rule != cure.rule or not cure.made:
        return finding
    fixes = list(finding.fixes)
    edits = tuple(
        replace(edit, coefficients={**edit.coefficients, **dict(cure.made)}) for edit in fixes[cure.fix].edits
    )
    fixes[cure.fix] = replace(fixes[cure.fix], edits=edits)
    return replace(finding, fixes=tuple(fixes))


def told(folder: Path) -> Iterator[Told]:
    """Yield what is predicted of each cure from the recordings in a folder, as `bench/pairs.py` leaves them."""
    for cure in CURES:
        measured = measure(load([str(folder / f"{cure.pair}-{cure.before}")]))
        after = measure(load([str(folder / f"{cure.pair}-{cure.after}")])).measurements
        findings, _ = ask(measured.measurements)
        priced, prediction = predicted(measured, tuple(_as_made(finding, cure) for finding in findings), ())
        found = next((finding for finding in priced if finding.rule == cure.rule), None)
        fix = found.fixes[cure.fix] if found is not None and cure.fix < len(found.fixes) else None
        worth = fix.predicted if fix is not None else None
        yield Told(
            cure,
            measured.measurements.number("step_time_mean_s"),
            after.number("step_time_mean_s"),
            after.number("step_time_s"),
            worth.step_time_mean_s if worth else None,
            worth.step_time_s if worth else None,
            "" if worth else prediction.unpriced.get(cure.rule, prediction.refused),
        )
