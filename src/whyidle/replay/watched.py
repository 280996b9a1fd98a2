"""What fixes are worth in a job of which there is a log and no trace: its loader's loop, run again with them made.

A log tells how long batches take and on how much CPU, what the training does beside them, and what its pauses cost.
That is enough to price what concerns the loader and the pauses, and nothing else: why a step's own work takes as long
as it does, only a trace can tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from whyidle.measure import Measured
from whyidle.model.finding import Edit, Estimate, Predicted, Prediction
from whyidle.model.measurement import Measurements
from whyidle.replay.loader import WARM_UP, loop
from whyidle.rules.input import loader_model, taken

SOURCE: Final = "the loop of its loader, simulated with the times of this job's log"
ARITHMETIC: Final = "its pauses in this job's log"
STEPS: Final = 1500  # that are simulated; of several batches fewer, but for FEWEST_STEPS
FEWEST_STEPS: Final = 200
MOST_BATCHES: Final = 40_000  # that are simulated, whatever a step has of them: of so many the mean is sure
FEWEST_LONG: Final = 5  # steps of so many batches
RARE: Final = 100  # steps between pauses: from there on they do not change how far ahead a loader gets
# In __next__, of a batch that is there: 0.5 to 0.75 ms (bench/pairs.py, 2 CPUs). What else receiving costs is in the
# step's own time where workers are on; all of it is the rule's HANDOVER.
RECEIVED_S: Final = 0.65e-3
OVERLAPPED: Final = 0.5  # of HANDOVER, where a GPU works meanwhile (1.4 ms of a step of 117: kineto resnet50 pair)
FEWEST_CPUS: Final = 0.1
LONGEST: Final = 5.0  # times: waiting for a CPU is taken to make a step's own work no longer than that
LATEST: Final = 0.10  # of the step: a model that misses what was recorded by more says nothing of what would be
# What is not known better, for intervals of 80%; on bench/pairs.py the predicted step is off by up to 8%.
MAKING: Final = 0.10  # of a batch's time: it was measured beside other work than it will have
UNEQUAL: Final = 0.25  # of its spread
OTHERS: Final = 0.5  # of what other programs want: they come and go
STEP: Final = 0.05  # of the step, at most: its own work beside what is changed
LITTLE: Final = 0.01  # of the step, where next to nothing changes (judgement: the noise of a mean of 150 steps)
SAVED: Final = 0.25  # of what is saved: a change that saves little leaves little to be wrong about (judgement)
FACTORS: Final = (0.3, 2.0)  # times a factor that nobody measured
SETTINGS: Final = frozenset({"workers", "prefetch", "cpus"})  # coefficients that say more than a factor
TRACE: Final = "takes a trace: whyidle run without --no-trace"
NO_TRACE: Final = "takes a run with the change made: no log tells how long the work takes then"
MOSTLY_OWN: Final = (
    "takes a run with the change made: other programs slow the training down more than its loader, and no log tells"
    " how fast it is without them"
)
OF_RANKS: Final = "takes a trace of each rank: whyidle run without --no-trace"


@dataclass(frozen=True, slots=True)
class Pause:
    """What holds up training every so many steps."""

    seconds: float = 0.0  # that the fix of a pause is about, each time
    work: float = 0.0  # of its own, each time: an evaluation's forward passes
    every: float = math.inf  # steps

    @property
    def per_step(self) -> float:
        return (self.seconds + self.work) / self.every


class Steps(NamedTuple):
    """How long steps take, s."""

    mean: float
    median: float


@dataclass(frozen=True, slots=True)
class Job:
    """A training with its loader: what a step is made of. Times in s, on CPUs of their own."""

    own: float  # of each step, beside what follows
    took: float = 0.0  # the same as recorded, with its waits for a CPU
    making: float = 0.0  # each batch
    spread: float = 0.0  # sd over mean of that
    cpu_share: float = 1.0  # of making: computing
    workers: int = 0
    hidden: float = 0.0  # of making one without workers: what the GPU still has work for
    prefetch: int = 2
    receiving: float = 0.0  # each batch
    per_step: float = 1.0  # batches
    cpus: float | None = None  # for this rank and its workers; None: unknown, taken as enough
    others: float = 0.0  # processes of other programs that want these CPUs all the time
    own_cpus: float = 0.0  # that the training uses
    own_slows: float = 0.0  # part of `own` that takes longer where these are not free
    first: float = 0.0  # mean wait per step for the beginnings of epochs
    firsts: float = 0.0  # beginnings per step
    saves: Pause = Pause()
    evaluations: Pause = Pause()
    on_gpu: bool = False
    assumed: tuple[str, ...] = ()  # what was not measured

    def play(self) -> Steps:
        """Return how long the steps of this job take."""
        group = min(max(round(self.per_step), 1), MOST_BATCHES // FEWEST_LONG)
        number = max(STEPS // group, min(FEWEST_STEPS, MOST_BATCHES // group))
        count = number * group + WARM_UP
        making = self.making if self.workers else max(self.making - self.hidden, 0.0)
        consumer = np.full(count, self.own / group + self.receiving)
        rare = self.first
        for pause in (self.saves, self.evaluations):
            if pause.every > RARE:
                rare += pause.per_step
            else:
                paused = np.diff(np.floor(np.arange(count + 1) / (pause.every * group)))
                consumer += paused * (pause.seconds + pause.work)
        run = loop(
            (making * self.per_step / group, self.spread),
            self.workers,
            self.prefetch,
            consumer.tolist(),
            batches=number * group,
            cpus=self.cpus,
            cpu_share=self.cpu_share,
            consumer_cpus=self.own_cpus,
            consumer_share=self.own_slows,
            others=self.others,
        )
        steps = run.step.reshape(number, group).sum(axis=1)
        return Steps(float(steps.mean()) + rare, float(np.median(steps)))


def job_of(m: Measurements) -> Job | str:
    """Return the job as its log shows it, or why that does not suffice."""
    needed = ("step_time_mean_s", "watched_steps", "lost_data_workers_share", "lost_data_zero_share")
    if any(name not in m for name in needed):
        return "takes to know how long the GPU waits for data, which was not measured"
    step, steps = m.number("step_time_mean_s"), max(m.number("watched_steps"), 1.0)
    other = m.get("lost_data_other_share", 0.0)
    waits = sum(m.get(f"lost_data_{kind}_share", 0.0) for kind in ("zero", "workers", "first")) + other
    evaluates = m.get("host_evaluation_share", 0.0)
    own = step * max(1 - waits - m.get("lost_save_share", 0.0) - evaluates, 0.0)
    job = Job(
        own=own,
        took=own,
        first=step * m.get("lost_data_first_share", 0.0),
        firsts=m.get("epochs", 0.0) / steps,
        saves=_pause(step * steps, steps, m.get("saves", 0.0), m.get("lost_save_share", 0.0), 0.0),
        evaluations=_pause(
            step * steps, steps, m.get("evaluations", 0.0), m.get("lost_evaluation_share", 0.0), evaluates
        ),
        on_gpu="on_gpu" not in m or bool(m.one("on_gpu").value),
        cpus=_cpus(m),
    )
    return _with_loader(job, m, step, other)


def _cpus(m: Measurements) -> float | None:
    """Return the CPUs that a rank and its workers may use, whoever else does; None if not measured."""
    if "cpus_allowed" not in m:
        return None
    return max(m.number("cpus_allowed") / max(m.get("ranks_on_machine", 1.0), 1.0), FEWEST_CPUS)


def _pause(total: float, steps: float, count: float, lost: float, whole: float) -> Pause:
    """Return a pause that comes `count` times: `lost` of the time is what its fix is about, `whole` all of it."""
    if count < 1 or max(lost, whole) <= 0:
        return Pause()
    return Pause(lost * total / count, max(whole - lost, 0.0) * total / count, steps / count)


def _with_loader(job: Job, m: Measurements, step: float, other: float) -> Job:
    """Return the job with what its batches take; without a DataLoader, a wait is taken for the making of its batch."""
    workers = int(m.get("num_workers", 0.0))
    if "batch_seconds" in m and m.number("batch_seconds") > 0:
        share, waits = m.get("batch_cpu_share", 1.0), m.number("lost_data_zero_share")
        wall = m.number("batch_seconds")
        making = wall * (share + m.get("batch_blocked_share", 0.0)) if "batch_cpu_share" in m else wall
        per_step = max(m.get("loader_batches_per_step", 1.0), 1e-3)
        # what is there without loader's workers is waited for as it is made
        receiving = min(RECEIVED_S, step / per_step) if workers and not job.on_gpu else 0.0
        job = replace(
            job,
            making=making,
            spread=m.get("batch_spread", float(loader_model.SPREAD)),
            cpu_share=min(wall * share / making, 1e3) if making > 0 else 1.0,
            workers=workers,
            hidden=max(making - waits * step / per_step, 0.0) if job.on_gpu and not workers else 0.0,
            prefetch=int(m.get("prefetch_factor", 2.0)),
            receiving=receiving,
            per_step=per_step,
        )
    elif other > 0:
        said = "the time between steps is what making a batch takes"
        job = replace(job, making=other * step, spread=float(loader_model.SPREAD), assumed=(said,))
    return _on_cpus(job, m, step)


def _on_cpus(job: Job, m: Measurements, step: float) -> Job:
    """Return the job with the CPUs that its training takes, and without its waits for a CPU, which are played anew."""
    if job.cpus is None:
        return job
    own, others = job.own, _others(job, m, step) if taken.much(m) else 0.0
    if not job.on_gpu:
        delay = m.get("main_run_delay_share", 0.0) * step
        if not job.workers:  # in which batches are made, too
            delay -= m.get("batch_run_delay_share", 0.0) * m.get("batch_seconds", 0.0) * job.per_step
        own = max(own - max(delay, 0.0), own / LONGEST)
    used = 1.0 if not job.on_gpu else 0.0
    if "job_cpu_share" in m and own > 0:
        all_used = m.number("job_cpu_share") * m.number("cpus_allowed") / max(m.get("ranks_on_machine", 1.0), 1.0)
        beside = own + job.first + job.saves.per_step + job.evaluations.per_step
        used = (all_used * step - job.making * job.cpu_share * job.per_step) / beside
    used = min(max(used, 0.0), job.cpus)
    slows = 0.0 if job.on_gpu else min(used, 1.0)
    return replace(job, own=own, own_cpus=used, own_slows=slows, others=others)


def _others(job: Job, m: Measurements, step: float) -> float:
    """Return how many processes of other programs want the job's CPUs, by how much longer its own wait for one.

    Where n processes want c CPUs each takes n / c times as long; what of n is the job's own is measured.
    """
    main, delay = m.get("main_cpu_share", 0.0), m.get("main_run_delay_share", 0.0)
    if main <= 0 or delay <= 0 or job.cpus is None:
        return 0.0
    runs = m.get("batch_cpu_share", 0.0) + m.get("batch_run_delay_share", 0.0)
    workers = runs * m.get("batch_seconds", 0.0) * job.per_step / step if job.workers else 0.0
    return max((1 + delay / main) * job.cpus - (main + delay + workers), 0.0)


def edited(job: Job, edit: Edit, prior: float = 1.0) -> Job | str:
    """Return the job with an edit made, or why a log does not suffice for it.

    Args:
        job: as it is.
        edit: of a fix.
        prior: times the factor, where nobody measured that in this job.
    """
    c = edit.coefficients
    factor = c.get("factor", 1.0)
    if c.get("prior"):
        factor = min(factor * prior, 1.0)
    match edit.kind, dict(edit.selector):
        case "scale_host", {"cause": "checkpoint"}:
            return replace(job, saves=_eased(job.saves, factor, c.get("fewer")))
        case "scale_host", {"cause": "evaluation"}:
            return replace(job, evaluations=_eased(job.evaluations, factor, c.get("fewer")))
        case "scale_device", {"range": "evaluation"}:
            return job if c.get("fewer") else replace(job, evaluations=_shorter(job.evaluations, factor))
        case "scale_host", {"cause": "data_wait", "rank": _}:
            return OF_RANKS
        case "scale_host", {"cause": "data_wait", "step": "first"}:
            return replace(job, first=job.first * factor)
        case "scale_host", {"cause": "data_wait"}:
            return _loading(job, factor, c)
        case ("scale_host", {"cause": "host"}) | ("scale_device", {"range": "checkpoint"}):
            return job  # the CPUs that workers take are played, and what a pause waits for is part of it
        case "scale_host", {"cause": "startup"}:
            return "is no part of a step: what it costs is said in the finding"
    return TRACE if job.on_gpu else NO_TRACE


def _eased(pause: Pause, factor: float, fewer: float | None) -> Pause:
    """Return a pause that comes so many times less often, or of which the fix leaves that part."""
    return replace(pause, every=pause.every * fewer) if fewer else replace(pause, seconds=pause.seconds * factor)


def _shorter(pause: Pause, factor: float) -> Pause:
    return replace(pause, work=pause.work * factor)


def _loading(job: Job, factor: float, c: Mapping[str, float]) -> Job | str:
    """Return the job with other settings of its loader, else with batches that take that part of their time."""
    if job.making <= 0:
        return "takes to know how long a batch takes to make, which was not measured"
    if not SETTINGS & set(c):
        less = job.firsts * job.making * (1 - factor)  # one batch of each epoch is made while nothing is queued
        return replace(job, making=job.making * factor, first=max(job.first - less, job.first * factor))
    changed = replace(
        job,
        # of several fixes the one that sets more
        workers=max(int(c.get("workers", 0)), job.workers),
        prefetch=max(int(c.get("prefetch", 0)), job.prefetch),
        cpus=c.get("cpus", job.cpus),
        others=0.0 if "cpus" in c else job.others,
    )
    if job.workers or not changed.workers:
        return changed
    receiving = float(loader_model.HANDOVER) * (OVERLAPPED if job.on_gpu else 1.0)
    return replace(changed, receiving=receiving, first=job.first + job.firsts * job.making)


def changed(job: Job, edits: Sequence[Edit], prior: float = 1.0) -> Job | str:
    """Return the job with all of these made, or why a log does not suffice for one of them."""
    if not edits:
        return TRACE if job.on_gpu else NO_TRACE
    for edit in edits:
        after = edited(job, edit, prior)
        if isinstance(after, str):
            return after
        job = after
    return job


def predicted(job: Job, edits: Sequence[Edit], before: float | None = None) -> Predicted | str:
    """Return what the job does with these edits made, as intervals of 80%, or why a log does not tell.

    `before` is its mean step as it is, s, if that was played already.
    """
    likely, best, worst = (changed(job, edits, prior) for prior in (1.0, *FACTORS))
    if isinstance(likely, str) or isinstance(best, str) or isinstance(worst, str):
        return str(likely)
    before = job.play().mean if before is None else before
    after = likely.play()
    if likely.others < job.others and job.took - after.mean > before - job.took:
        return MOSTLY_OWN
    low, high = _off_by(best, -1).play(), _off_by(worst, 1).play()
    error = min(LITTLE + SAVED * abs(1 - after.mean / before), STEP)
    mean = _interval(after.mean, low.mean, high.mean, error)
    if not any("workers" in edit.coefficients for edit in edits):  # these take CPUs; what only leaves away does not
        mean = replace(mean, high=max(min(mean.high, before), mean.likely))
    assumed = [
        f"{edit.coefficients['factor']:.2g} of {_what(edit)} is left"
        for edit in edits
        if edit.coefficients.get("prior") and not (SETTINGS | {"fewer"}) & set(edit.coefficients)
    ]
    if likely.others:
        assumed.append("other programs go on using the CPUs as they did")
    return Predicted(
        step_time_s=_interval(after.median, low.median, high.median, error),
        step_time_mean_s=mean,
        speedup=Estimate(before / mean.high, before / mean.likely, before / mean.low),
        source=SOURCE if job.making > 0 else ARITHMETIC,
        rests_on=tuple(dict.fromkeys((*likely.assumed, *assumed))),
    )


def _what(edit: Edit) -> str:
    """Return what a factor is of, in words."""
    cause = edit.selector.get("cause") or edit.selector.get("range")
    if cause == "data_wait":
        return "an epoch's first wait" if "step" in edit.selector else "the time that a batch takes"
    return "a checkpoint's pause" if cause == "checkpoint" else "an evaluation's pause"


def _off_by(job: Job, sign: int) -> Job:
    """Return the job as it is if what was measured is off by as much as it may be: better (-1) or worse (+1)."""
    return replace(
        job,
        making=job.making * (1 + sign * MAKING),
        spread=job.spread * (1 + sign * UNEQUAL),
        receiving=job.receiving * (1 + sign * 0.5),
        others=job.others * (1 + sign * OTHERS),
    )


def _interval(likely: float, low: float, high: float, error: float) -> Estimate:
    """Return the range with what nobody can know of a step's own work."""
    return Estimate(min(low, likely) * (1 - error), likely, max(high, likely) * (1 + error))


def of_log(measured: Measured) -> tuple[Looped | None, Prediction]:
    """Return who prices the fixes of a job by its log, and from what; None where the log does not suffice."""
    m = measured.measurements
    job = job_of(m)
    if isinstance(job, str):
        return None, Prediction(refused=job)
    as_is = job.play()
    error = as_is.mean / m.number("step_time_mean_s") - 1
    off = ""
    if abs(error) > LATEST:
        was, is_ = m.number("step_time_mean_s") * 1e3, as_is.mean * 1e3
        off = f"takes a trace: with nothing changed the model of its loader makes a step of {is_:.3g} ms, not {was:.3g}"
    return Looped(job, as_is.mean, as_is.median, off), Prediction(
        source=SOURCE if job.making > 0 else ARITHMETIC,
        step_time_s=as_is.median,
        step_time_mean_s=as_is.mean,
        identity_error=abs(error),
    )


@dataclass(frozen=True, slots=True)
class Looped:
    """The price of edits by the loop of a loader and the pauses of a log."""

    job: Job
    mean_s: float
    median_s: float
    off: str = ""  # why nothing is said of loading
    untraced: str = ""  # why there is no trace that prices other things; empty: none was recorded

    def price(self, edits: Sequence[Edit]) -> Predicted | str:
        """Return what the job does with these edits made, or why that cannot be told."""
        loads = any(edit.selector.get("cause") == "data_wait" for edit in edits)
        return self.off if loads and self.off else predicted(self.job, edits, self.mean_s)

    def why_not(self, rule: str) -> str:
        """Return why a log does not price the fixes of a rule; empty if it may."""
        if rule.startswith(("input.", "pause.")):
            return ""
        return self.untraced or (TRACE if self.job.on_gpu else NO_TRACE)

    def unsure(self, edits: Sequence[Edit]) -> float:
        """Return half the width of the interval of what these edits save, as a part of that."""
        alone = self.price(edits)
        if isinstance(alone, str):
            return 1.0
        mean = alone.step_time_mean_s
        return min((mean.high - mean.likely) / max(self.mean_s - mean.likely, 1e-9), 1.0)
