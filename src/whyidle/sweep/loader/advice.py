"""What follows from a loader that was measured alone, and from a training that was measured without it.

Of each number of workers the step that it would give is computed by the closed loop of loader and training
(`replay.loader`), from the batches' times as they were measured with these workers: batches come in order and unequal
ones make the training wait, so that neither a rate nor a mean tells. The fewest workers that are as good as any are
advised, deeper prefetching before more workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Final

from whyidle.model.loader_trial import Expected, LoaderAdvice, LoaderTrial, Point, SeenLoader, Setting
from whyidle.replay.loader import loop
from whyidle.sweep.loader.formats import other_changes
from whyidle.sweep.loader.limits import CROWDED, cpu_share, delayed_share, limit_of

AS_GOOD: Final = 1.02  # a step that is longer by less: a gain of 2% is not worth more workers (method)
AS_FAST: Final = 1.05  # the same of a loader alone, where nobody knows what the training needs
UNEQUAL: Final = 0.5  # sd over mean of a batch's time, from which batches are made farther ahead (method)
DEEPER: Final = (2, 4, 8)  # prefetch factors
MOST_OF_MEMORY: Final = 0.5  # of what is free, for all workers of the machine (method)
WORTH_PINNING: Final = 1 << 20  # bytes of a batch; a copy of less takes well below 1 ms either way
WORTH_KEEPING: Final = 0.02  # of an epoch, that starting the workers takes
WORTH_IT: Final = 1.05  # medium severity elsewhere
FAR: Final = 1.25  # between what is expected of the settings as they are, and what was measured
BATCHES: Final = 2000  # simulated for each; the draws of a batch's time differ by 1% or so then


def advise(trial: LoaderTrial, cpus: float | None) -> LoaderAdvice:
    """Return what to change.

    Args:
        trial: what was measured; at least one point of it gave batches.
        cpus: that the job may use.
    """
    own = None if cpus is None else cpus / trial.local_ranks
    ceiling = trial.cached.mean_s if trial.cached else None
    now = trial.now.mean_s if trial.now else None
    points = [point for point in trial.points if point.batches_per_s]
    fitting = [point for point in points if _fits(point, trial, points, own)] or points
    expected = () if ceiling is None else tuple(_expected(fitting, ceiling, own, trial))
    chosen = _chosen(fitting, expected)
    tried = trial.tried or SeenLoader(0)
    as_it_is = next((one for one in expected if _is_own(one.workers, one.prefetch, tried)), None)
    then = next((one.step_s for one in expected if (one.workers, one.prefetch) == chosen), None)
    # What nobody explains of the training as it is would stay with other settings: theirs is no gain over it.
    no_better = as_it_is is not None and then is not None and as_it_is.step_s <= then * AS_GOOD
    if now is not None and (no_better or _is_good(now, then, ceiling)) and tried.num_workers is not None:
        chosen, then = (tried.num_workers, tried.prefetch_factor or 2), now
    limit = limit_of(points, ceiling, own)
    advice = LoaderAdvice(
        message="",
        settings=tuple(_settings(trial, tried, chosen, points, then)),
        why=_why(points, chosen, ceiling, limit, own),
        limit=limit,
        other=tuple(other_changes(trial, points, ceiling, limit)),
        expected=expected,
        step_now_s=now,
        step_then_s=then,
        ceiling_s=ceiling,
        warnings=tuple(_warnings(trial, as_it_is, now, chosen[0])),
    )
    return replace(advice, message=_message(advice, trial))


def _is_good(now: float, then: float | None, ceiling: float | None) -> bool:
    """Return whether a training is as fast already as other settings would make it, or hardly waits at all."""
    return (then is not None and now <= then * AS_GOOD) or (ceiling is not None and now < ceiling * WORTH_IT)


def _fits(point: Point, trial: LoaderTrial, points: Sequence[Point], cpus: float | None) -> bool:
    """Return whether there is room for the workers of all ranks: in memory, and on the CPUs as far as they compute.

    More than one that give the same batches are another training.
    """
    free = trial.available_memory_bytes
    needed = point.workers * trial.local_ranks * (point.memory_bytes or 0)
    if free is not None and needed > MOST_OF_MEMORY * free:
        return False
    if point.workers > 1 and any(one.repeated for one in points):
        return False
    share = cpu_share(min(points, key=lambda point: point.workers))
    return cpus is None or share is None or point.workers <= 1 or point.workers * share <= cpus


def _is_own(workers: int, prefetch: int, tried: SeenLoader) -> bool:
    return workers == tried.num_workers and (not workers or prefetch == (tried.prefetch_factor or 2))


def unequal(points: Iterable[Point]) -> float:
    """Return sd over mean of a batch's time where the fewest workers made batches; 0 where that was not seen."""
    for point in sorted(points, key=lambda point: point.workers):
        if len(point.fetch_s) > 2 and fmean(point.fetch_s) > 0:
            return stdev(point.fetch_s) / fmean(point.fetch_s)
    return 0.0


def _expected(points: Sequence[Point], ceiling: float, cpus: float | None, trial: LoaderTrial) -> Iterable[Expected]:
    """Yield the step for each number of workers, and for deeper prefetching where batches are unequal."""
    spread = unequal(points)
    least = min(points, key=lambda point: point.workers)
    for workers in sorted({point.workers for point in points}):
        measured = {point.prefetch: point for point in points if point.workers == workers}
        deeper = DEEPER if workers and spread > UNEQUAL else ()
        for prefetch in sorted({*measured, *deeper}):
            point = measured.get(prefetch) or next(iter(measured.values()))
            yield Expected(workers, prefetch, _step(point, prefetch, ceiling, least, cpus, trial))


def _step(point: Point, prefetch: int, ceiling: float, least: Point, cpus: float | None, trial: LoaderTrial) -> float:
    """Return the mean step of the training with a loader, s.

    What the workers were measured to give without the training is one bound. The other is what they get of the CPUs
    beside it, which is computed from a batch's time where workers had CPUs enough. The training receives each batch,
    unless a thread does that which pins it.
    """
    pins = trial.cuda and trial.tried is not None and trial.tried.pin_memory
    trains = ceiling + (0.0 if pins else point.receive_s or 0.0)
    alone = loop(_times(point), point.workers, prefetch, trains, batches=BATCHES).step.mean()
    share = cpu_share(least)
    if cpus is None or share is None:
        return float(alone)
    beside = loop(
        _times(least),
        point.workers,
        prefetch,
        trains,
        batches=BATCHES,
        cpus=cpus,
        cpu_share=share,
        consumer_share=0.0 if trial.cuda else 1.0,
    )
    return float(max(alone, beside.step.mean()))


def _times(point: Point) -> list[float]:
    """Return times of single batches, such that a training which takes none itself gets them at the pace measured.

    Handing a batch over costs time, too, and workers that do not tell of theirs still have a pace.
    """
    pace = point.batches_per_s
    assert pace is not None
    times = list(point.fetch_s) or [max(point.workers, 1) / pace]
    alone = float(loop(times, point.workers, point.prefetch, 0.0, batches=BATCHES).step.mean())
    return [time * max(1 / pace / alone, 1.0) for time in times] if alone > 0 else times


def _chosen(points: Sequence[Point], expected: Sequence[Expected]) -> tuple[int, int]:
    """Return the fewest workers, and then the least prefetching, that are as good as any."""
    if expected:
        best = min(one.step_s for one in expected)
        return min((one.workers, one.prefetch) for one in expected if one.step_s <= best * AS_GOOD)
    fastest = max(point.batches_per_s or 0.0 for point in points)
    return min((point.workers, point.prefetch) for point in points if (point.batches_per_s or 0) * AS_FAST >= fastest)


def _settings(
    trial: LoaderTrial, tried: SeenLoader, chosen: tuple[int, int], points: Sequence[Point], then: float | None
) -> Iterable[Setting]:
    workers, prefetch = chosen
    if workers != tried.num_workers:
        yield Setting("num_workers", _told(tried.num_workers), str(workers), "the fewest that are as good as any")
    if workers and prefetch != (tried.prefetch_factor or 2):
        why = "batches take unequal times; more of them ahead even that out"
        if prefetch < (tried.prefetch_factor or 2):
            why = "as good, with less memory"
        yield Setting("prefetch_factor", _told(tried.prefetch_factor), str(prefetch), why)
    size = max((point.batch_bytes or 0 for point in points), default=0)
    if trial.cuda and not tried.pin_memory and size >= WORTH_PINNING:
        yield Setting(
            "pin_memory", _told(tried.pin_memory), "True", f"a batch has {size >> 20} MiB, which is copied to a GPU"
        )
    start = next((p.first_batch_s for p in points if (p.workers, p.prefetch) == chosen), None)
    if workers and not tried.persistent_workers and start and then:
        part = 1.0 if tried.length is None else start / (start + tried.length * then)
        if part >= WORTH_KEEPING:
            epoch = "each epoch" if tried.length is None else f"{part:.0%} of an epoch of {tried.length:,} batches"
            why = f"starting them takes {start:.2g} s, {epoch}; make the DataLoader once for all epochs"
            yield Setting("persistent_workers", _told(tried.persistent_workers), "True", why)


def _told(value: object) -> str:
    return "not set" if value is None else str(value)


def _why(
    points: Sequence[Point], chosen: tuple[int, int], ceiling: float | None, limit: str | None, cpus: float | None
) -> str:
    """Return the sentence behind the number of workers: what the training takes, what workers give, where it ends."""
    of_chosen = [point for point in points if point.workers == chosen[0]]
    point = max(of_chosen, key=lambda point: point.batches_per_s or 0, default=None)
    parts = []
    if ceiling is not None:
        parts.append(f"the training takes {_ms(ceiling)} a batch without loading")
    if point is not None and point.batches_per_s:
        who = f"{point.workers} workers give" if point.workers > 1 else "1 worker gives" if point.workers else ""
        every = f"one every {_ms(1 / point.batches_per_s)}"
        parts.append(f"{who} {every}" if who else f"without workers it makes {every}")
    if limit == "cpu" and cpus is not None:
        parts.append(f"more do not help: there are {cpus:g} CPUs, and none is free")
    elif limit == "storage":
        parts.append("more do not help: they wait for storage, a server or a lock")
    elif limit == "unknown":
        parts.append("more do not help, though CPUs are free: they wait for something that they share")
    return "; ".join(parts)


def _ms(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _message(advice: LoaderAdvice, trial: LoaderTrial) -> str:
    crowded = max((delayed_share(point) for point in trial.points if point.workers <= 1), default=0.0) >= CROWDED
    doubt = " But other programs used the CPUs meanwhile: try again when they are free." if crowded else ""
    return _answer(advice, trial) + doubt


def _answer(advice: LoaderAdvice, trial: LoaderTrial) -> str:
    most = advice.speedup_at_most
    changes = ", ".join(f"{one.name}={one.then}" for one in advice.settings)
    quicker = any(one.name in {"num_workers", "prefetch_factor"} for one in advice.settings)
    if most is None:
        why = "the training was not measured" if trial.now is None else "the training was not measured without loading"
        return (
            f"{changes or 'Its settings are as good as any that was tried'}; {why}, so nobody knows what that is worth."
        )
    if most < WORTH_IT:
        return f"The loader holds up this training by {1 - 1 / most:.0%} at most: look elsewhere."
    if not quicker:
        return (
            "Its num_workers is as good as any that was tried, and the training still waits: without loading it is "
            f"{most:.3g}x as fast."
        )
    gain = advice.step_now_s / advice.step_then_s if advice.step_now_s and advice.step_then_s else 1.0
    return f"{changes}: {gain:.3g}x as fast is expected, and {most:.3g}x is the most that a loader can give."


def _warnings(trial: LoaderTrial, as_it_is: Expected | None, now: float | None, workers: int) -> Iterable[str]:
    if trial.state != "done":
        yield f"It is not complete: {trial.why or 'it was stopped'}."
    if trial.now is not None and trial.now.optimizer_steps == 0:
        yield "No optimizer stepped meanwhile: this may not be the training's loader. --loader N takes another."
    if as_it_is is not None and now is not None and not 1 / FAR <= now / as_it_is.step_s <= FAR:
        yield (
            f"With its settings as they are a step should take {_ms(as_it_is.step_s)} by what was measured alone, and "
            f"took {_ms(now)}: beside the training the loader is not what it is alone."
        )
    delayed = [delayed_share(point) for point in trial.points if point.workers <= 1]
    if max(delayed, default=0.0) >= CROWDED:
        yield f"One worker waited for a CPU in {max(delayed):.0%} of its time, as other programs used them."
    repeats = any(point.repeated for point in trial.points)
    if repeats and trial.tried is not None and (trial.tried.num_workers or 0) > 1:
        yield f"Its workers give the same batches: each sample comes {trial.tried.num_workers} times an epoch."
    if workers > 1 and not repeats and trial.tried is not None and trial.tried.iterable:
        yield "Its data set is iterable: unless that divides its samples among workers, each comes once per worker."
    if trial.local_ranks > 1:
        yield (
            f"Measured for one of {trial.local_ranks} ranks of this machine while the others waited; "
            "each has a loader of its own, so memory and CPUs are shared among them."
        )
