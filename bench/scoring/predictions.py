"""Is a fix worth what it was said to be? Predicted step times against the same job run without its fault.

Step times are means, s. The saving is a share of the step: ours of the step as we replay it, the truth's of the step as
it ran. Beside each prediction stand what the rules estimate alone (`lost_share`), and what subtracting the time of the
cause from the step gives: peers that need no replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

import numpy as np

from scoring.alike import right
from scoring.order import AS_GOOD, among_first
from scoring.rates import Rate, Spread
from scoring.records import LEAST_SEVERITY, MAIN_SEVERITY, Outcome, Said, at_least

SAVING_FROM = 0.10  # of the step: below it the error of a saving is mostly that of the step
Score = TypeVar("Score")

INTERVAL = 0.80  # what an Estimate says of itself
Z_80 = 1.281552  # half of an 80% interval of a normal distribution, in standard deviations


@dataclass(frozen=True, slots=True)
class Promise:
    """What a fix was said to make of the mean step, s."""

    rule: str
    title: str
    kinds: tuple[str, ...]  # of its edits
    prior: bool  # it rests on a coefficient that was not measured in the job
    low: float
    likely: float
    high: float
    place: int = 0  # among the fixes of its finding


@dataclass(frozen=True, slots=True)
class Priced:
    """A simulated job, and what was predicted for it."""

    outcome: Outcome
    step_s: float  # as it ran
    without_all_s: float | None = None  # run without any of its faults
    base_s: float | None = None  # as replayed, nothing changed
    recorded_s: float | None = None  # as measured in the recording
    refused: str = ""
    identity: tuple[float, ...] = ()  # replayed over recorded - 1, of each step
    promises: tuple[Promise, ...] = ()  # in the order of the report
    naive: Mapping[str, float] = field(default_factory=dict)  # by rule: the share of the step that its causes take
    unpriced: Mapping[str, str] = field(default_factory=dict)
    sequence: tuple[str, ...] = ()  # rules
    together: Promise | None = None  # the cures of all of its faults
    cpu_s: float | None = None

    @property
    def name(self) -> str:
        return self.outcome.truth.name

    def promised(self, rule: str, place: int = 0) -> Promise | None:
        """Return what the fix at this place of a finding promises, or the first after it that has a price."""
        return next((one for one in self.promises if one.rule == rule and one.place >= place), None)

    def finding_of(self, cause: str) -> Said | None:
        """Return the first finding that names a cause, or what a trace cannot tell from it."""
        return next((said for said in self.outcome.ranked if right(said.rule, (cause,), strict=False)), None)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One change: what was predicted, and what came of it."""

    job: str
    change: str  # the fault that is cured, or what else the job would gain by
    promise: Promise
    step_s: float
    truth_s: float
    base_s: float
    own_share: float | None = None  # of the step: what the rule says is lost
    naive_share: float | None = None

    @property
    def step_error(self) -> float:
        return self.promise.likely / self.truth_s - 1

    @property
    def saving(self) -> float:
        return 1 - self.truth_s / self.step_s

    @property
    def predicted_saving(self) -> float:
        return 1 - self.promise.likely / self.base_s

    @property
    def saving_error(self) -> float:
        """Return how far the predicted saving is off, as a share of the true one."""
        return self.predicted_saving / self.saving - 1

    @property
    def covered(self) -> bool:
        return self.promise.low <= self.truth_s <= self.promise.high

    @property
    def kind(self) -> str:
        return "+".join(sorted(set(self.promise.kinds))) + (" (prior)" if self.promise.prior else "")

    def peer_error(self, share: float | None) -> float | None:
        """Return the step error of a prediction that takes this share off the step."""
        return None if share is None else self.step_s * (1 - share) / self.truth_s - 1


@dataclass(frozen=True, slots=True)
class ChangeScore:
    """The errors for one change. Percent of the true step; savings in percent of the true saving, from 10% on."""

    change: str
    step: Spread
    saving: Spread
    covered: Rate
    own: Spread
    naive: Spread
    unchanged: Spread  # of who predicts that nothing changes


@dataclass(frozen=True, slots=True)
class KindScore:
    """The errors of the savings of one kind of edit, and what an interval would have to be made of."""

    kind: str
    saving: Spread  # percent of the true saving
    covered: Rate
    sigma: float | None  # of the saving, as a share of it: with it 80% intervals hold 80% of these
    sigma_step: float | None  # of the step, over all savings, however small


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Cures without a prediction, and why."""

    why: str
    jobs: int
    first: str


@dataclass(frozen=True, slots=True)
class FixTarget:
    """A goal, what was reached, and whether that is enough; None: nothing was measured."""

    goal: str
    reached: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Predictions:
    """All that is scored of some jobs."""

    jobs: int
    refused: tuple[Unpriced, ...]
    identity: Spread  # percent, of steps
    identity_median: float | None
    base: Spread  # percent: our step against the one that ran
    cures: tuple[ChangeScore, ...]
    all_cures: ChangeScore
    also: tuple[ChangeScore, ...]
    together: ChangeScore  # pairs of faults, both cured
    kinds: tuple[KindScore, ...]
    first_finding: Rate
    first_of_sequence: Rate
    unpriced: tuple[Unpriced, ...]
    cpu_s: Spread
    worst: tuple[Forecast, ...]
    targets: tuple[FixTarget, ...]


@dataclass(frozen=True, slots=True)
class Cure:
    """Which of a finding's fixes the simulator makes, by its place, and how much of what it cures that fix cures."""

    fix: int
    part: float = 1.0


# Where it is not the first fix that has a price.
CURES: Mapping[str, Cure] = {
    "transfer.pageable_h2d": Cure(1),  # "cured, pinned memory is copied on a stream of its own"
    "pause.evaluation": Cure(2, 0.5),  # cured, there is none; the fix evaluates half as often
}
WORST = 15


def score_predictions(jobs: Iterable[Priced]) -> Predictions:
    """Return the score of some jobs; what is mis-specified belongs in one of its own."""
    done = sorted(jobs, key=lambda job: job.name)
    cures = [forecast for job in done for forecast in cured(job)]
    also = [forecast for job in done for forecast in gained(job)]
    pairs = [forecast for job in done for forecast in cured_together(job)]
    steps = [100 * error for job in done for error in job.identity]
    main = [job for job in done if job.outcome.truth.single and _main(job)]
    every = of_change("all", cures)
    first = Rate.among([among_first(job.outcome, 1, strict=False) for job in main])
    identity, median = Spread.of(steps), float(np.median(np.abs(steps))) if steps else None
    return Predictions(
        jobs=len(done),
        refused=_reasons((job.refused, job.name) for job in done if job.refused),
        identity=identity,
        identity_median=median,
        base=Spread.of([100 * (job.base_s / job.step_s - 1) for job in done if job.base_s]),
        cures=_by(cures, lambda forecast: forecast.change, of_change),
        all_cures=every,
        also=_by(also, lambda forecast: forecast.change, of_change),
        together=of_change("both of two", pairs),
        kinds=_by(cures, lambda forecast: forecast.kind, of_kind),
        first_finding=first,
        first_of_sequence=Rate.among([first_right(job) for job in main]),
        unpriced=_reasons(unpriced(done)),
        cpu_s=Spread.of([job.cpu_s for job in done if job.cpu_s is not None]),
        worst=tuple(sorted(cures, key=lambda forecast: -abs(forecast.step_error))[:WORST]),
        targets=tuple(_targets(every, first, identity, median)),
    )


def _main(job: Priced) -> bool:
    return at_least(job.outcome.truth.faults[0].severity, MAIN_SEVERITY)


def cured(job: Priced) -> Iterable[Forecast]:
    """Yield what was predicted for the cure of a fault, of jobs with one."""
    fault = job.outcome.truth.single
    if fault is not None:
        said = job.finding_of(fault.id)
        yield from _forecast(job, fault.id, said, job.step_s * (1 - fault.severity))


def gained(job: Priced) -> Iterable[Forecast]:
    """Yield what was predicted for what else a job would gain by: only the very rule that stands for it."""
    for other in job.outcome.truth.also:
        said = next((said for said in job.outcome.ranked if said.rule == other.id), None)
        yield from _forecast(job, other.id, said, job.step_s * (1 - other.severity))


def _forecast(job: Priced, change: str, said: Said | None, truth_s: float) -> Iterable[Forecast]:
    cure = CURES.get(said.rule, Cure(0)) if said else Cure(0)
    promise = job.promised(said.rule, cure.fix) if said else None
    truth_s = job.step_s - cure.part * (job.step_s - truth_s)
    if said and promise and job.base_s:
        naive = job.naive.get(said.rule)
        shares = [share * cure.part for share in (said.lost_share or 0.0, naive or 0.0)]
        yield Forecast(job.name, change, promise, job.step_s, truth_s, job.base_s, *shares)


def cured_together(job: Priced) -> Iterable[Forecast]:
    """Yield what was predicted for the cure of both of two faults, both at 5% or more."""
    truth = job.outcome.truth
    if len(truth.faults) < 2 or len(truth.counted) < len(truth.faults):
        return
    if job.together and job.base_s and job.without_all_s:
        named = [job.finding_of(fault.id) for fault in truth.faults]
        own = sum(said.lost_share or 0.0 for said in named if said)
        naive = sum(job.naive.get(said.rule, 0.0) for said in named if said)
        change = "+".join(fault.id for fault in truth.faults)
        yield Forecast(job.name, change, job.together, job.step_s, job.without_all_s, job.base_s, own, naive)


def unpriced(jobs: Iterable[Priced]) -> Iterable[tuple[str, str]]:
    """Yield why a cure of a fault from 5% on has no prediction."""
    for job in jobs:
        fault = job.outcome.truth.single
        if fault is None or not at_least(fault.severity, LEAST_SEVERITY) or any(True for _ in cured(job)):
            continue
        said = job.finding_of(fault.id)
        if job.outcome.failure or said is None:
            yield "not found", job.name
        elif not job.refused:
            yield job.unpriced.get(said.rule, "no reason given"), job.name


def first_right(job: Priced) -> bool:
    """Say whether the first fix of the sequence is of the fault, or of what is worth nearly as much."""
    said = [said for said in job.outcome.ranked if said.rule in job.sequence[:1]]
    return any(job.outcome.is_right(finding, strict=False, worth=AS_GOOD) for finding in said)


def of_change(change: str, forecasts: Sequence[Forecast]) -> ChangeScore:
    large = [forecast for forecast in forecasts if forecast.saving >= SAVING_FROM]
    return ChangeScore(
        change,
        step=Spread.of([100 * forecast.step_error for forecast in forecasts]),
        saving=Spread.of([100 * forecast.saving_error for forecast in large]),
        covered=Rate.among([forecast.covered for forecast in forecasts]),
        own=_peer(forecasts, lambda forecast: forecast.own_share),
        naive=_peer(forecasts, lambda forecast: forecast.naive_share),
        unchanged=_peer(forecasts, lambda _: 0.0),
    )


def _peer(forecasts: Iterable[Forecast], share: Callable[[Forecast], float | None]) -> Spread:
    errors = [forecast.peer_error(share(forecast)) for forecast in forecasts]
    return Spread.of([100 * error for error in errors if error is not None])


def of_kind(kind: str, forecasts: Sequence[Forecast]) -> KindScore:
    large = [forecast.saving_error for forecast in forecasts if forecast.saving >= SAVING_FROM]
    step = [forecast.predicted_saving - forecast.saving for forecast in forecasts]
    return KindScore(
        kind,
        saving=Spread.of([100 * error for error in large]),
        covered=Rate.among([forecast.covered for forecast in forecasts]),
        sigma=_sigma(large),
        sigma_step=_sigma(step),
    )


def _sigma(errors: Sequence[float]) -> float | None:
    """Return the standard deviation of the normal distribution whose 80% interval would hold 80% of these."""
    return float(np.quantile(np.abs(errors), INTERVAL)) / Z_80 if errors else None


def _by(
    forecasts: Sequence[Forecast], key: Callable[[Forecast], str], score: Callable[[str, Sequence[Forecast]], Score]
) -> tuple[Score, ...]:
    return tuple(score(label, list(group)) for label, group in groupby(sorted(forecasts, key=key), key))


def _reasons(told: Iterable[tuple[str, str]]) -> tuple[Unpriced, ...]:
    by_why: dict[str, list[str]] = {}
    for why, job in told:
        by_why.setdefault(why, []).append(job)
    rows = [Unpriced(why, len(names), names[0]) for why, names in by_why.items()]
    return tuple(sorted(rows, key=lambda row: (-row.jobs, row.why)))


# Limits of the step error, the saving error and the identity in percent; of the intervals and the first fix as shares.
STEP_MEAN, STEP_P95, SAVING_MEAN, IDENTITY_MEDIAN, IDENTITY_P95 = 5.0, 10.0, 25.0, 1.0, 3.0
COVERS, FIRST_RIGHT = (0.70, 0.90), 0.90


def _targets(cures: ChangeScore, first: Rate, identity: Spread, median: float | None) -> Iterable[FixTarget]:
    yield _below("step replayed as it is: median error", median, IDENTITY_MEDIAN)
    yield _below("step replayed as it is: p95", identity.p95, IDENTITY_P95)
    yield _below("step time after a fix: mean error", cures.step.mean, STEP_MEAN)
    yield _below("step time after a fix: p95", cures.step.p95, STEP_P95)
    yield _below(f"saving, from {SAVING_FROM:.0%} of the step: mean error", cures.saving.mean, SAVING_MEAN)
    covered, low = cures.covered.ratio, first.ratio
    said = f"{cures.covered.hits} of {cures.covered.n}"
    goal = f"80% intervals hold {COVERS[0]:.0%} to {COVERS[1]:.0%}"
    yield FixTarget(goal, said, None if covered is None else COVERS[0] <= covered <= COVERS[1])
    goal = f"first finding right in {FIRST_RIGHT:.0%} of jobs with a fault of {MAIN_SEVERITY:.0%} and more"
    yield FixTarget(goal, f"{first.hits} of {first.n}", None if low is None else low >= FIRST_RIGHT)


def _below(what: str, percent: float | None, limit: float) -> FixTarget:
    goal = f"{what} <= {limit:g}%"
    if percent is None:
        return FixTarget(goal, "nothing measured", None)
    return FixTarget(goal, f"{percent:.2f}%", percent <= limit)
