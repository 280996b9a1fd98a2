"""What a job that was watched by `whyidle run` did: from the logs of its ranks. One file per question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from whyidle.measure.step_log import gpus, loader, machines, ranks, time, torch_counters
from whyidle.measure.step_log.watch import Watch, watch
from whyidle.model.evidence import Run, StepLog, Value
from whyidle.model.finding import LOW, GpuCount
from whyidle.model.measurement import CATALOG, Measurement

FEW: Final = 10  # steps: fewer say little of a job
SUMS: Final = {"samples_per_s", "tokens_per_s"}
LARGEST: Final = {
    "alloc_retries", "graphs", "graph_breaks", "peak_memory_bytes", "recompilations_late", "startup_s",
}  # fmt: skip
ASKED: Final = {"", "ok", "not asked", "not asked yet"}  # of NVML: it answered, or nobody wanted to know
# A rank on which these are missing had none of it.
ABSENT_IS_NONE: Final = {"data_wait_share"}
OF_WORST: Final = {"host_gap_share"}  # which is of the place that this rank has

QUESTIONS: Final = (time, loader, torch_counters)


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """What was measured of a job by its logs."""

    logs: tuple[StepLog, ...] = ()  # that were measured
    watches: tuple[Watch, ...] = ()  # of these, in the same order: for who wants to go on with them
    measurements: tuple[Measurement, ...] = ()
    steps_from: str | None = None
    gpus: tuple[GpuCount, ...] = ()
    settings: tuple[tuple[str, Value], ...] = ()
    warnings: tuple[str, ...] = ()


def measure(run: Run) -> WatchedJob:
    """Measure every rank that stepped, and the job as a whole."""
    nodes = {node.name: node for node in run.nodes}
    beside = ranks.held_up(run.logs, nodes)
    watches = [
        w for log, other in zip(run.logs, beside, strict=True) if (w := watch(log, nodes.get(log.process.node), other))
    ]
    warnings = tuple(told(run, watches))
    if not watches:
        return WatchedJob(warnings=warnings)
    of_ranks = [(w, [m for question in QUESTIONS for m in question.measure(w)]) for w in watches]
    warnings += tuple(taken_for_data(of_ranks))
    found = [
        *whole(of_ranks),
        *parts(of_ranks),
        *ranks.late(of_ranks),
        *machines.measure(run, watches),
        *gpus.measure(run, watches),
    ]
    return WatchedJob(
        logs=tuple(w.log for w in watches),
        watches=tuple(watches),
        measurements=tuple(found),
        steps_from=watches[0].steps.source,
        gpus=gpus.models(run, watches),
        settings=tuple(settings(max(of_ranks, key=lambda item: ranks.waits(*item))[0])),
        warnings=warnings,
    )


def told(run: Run, watches: Sequence[Watch]) -> Iterator[str]:
    """Yield what a person has to know of the recording."""
    for node in run.nodes:
        yield from node.warnings
        yield from node.not_captured
        if node.nvml not in ASKED and any(w.node is node and w.on_gpu for w in watches):
            yield f"{node.name}: no counters of the GPU, as NVML says: {node.nvml}."
    for log in run.logs:
        yield from log.warnings
    for w in watches:
        lost, whole_ = w.log.lost, w.log.lost + len(w.log)
        if lost:
            yield f"{w.log.path}: {lost:,} of {whole_:,} records are missing; what they span is not judged."
        if w.count < FEW:
            yield f"{w.log.path}: only {w.count} steps were watched, which says little of a job."
    silent = [log for log in run.logs if all(w.log is not log for w in watches)]
    if watches and silent:
        yield f"{len(silent)} of {len(run.logs)} ranks took no steps: left out."


def taken_for_data(of_ranks: Sequence[tuple[Watch, list[Measurement]]]) -> Iterator[str]:
    """Yield how a wait for data was recognised that no DataLoader and no range marks."""
    for w, measured in of_ranks:
        share = next((float(m.value) for m in measured if m.name == "lost_data_other_share"), 0.0)
        if share >= LOW and w.shares["data"] < share / 2:
            yield (
                "the training thread takes its batches from no DataLoader of PyTorch: the time from the end of a step "
                f"to the next forward pass in which nothing is known to run ({share:.0%} of the time) is taken for a "
                "wait for data."
            )
            return


def parts(of_ranks: Sequence[tuple[Watch, list[Measurement]]]) -> Iterator[Measurement]:
    """Yield each rank's own measurements, where there are several ranks."""
    if len(of_ranks) > 1:
        for w, measured in of_ranks:
            for m in measured:
                if not m.subject:
                    yield Measurement(m.name, m.value, f"rank {w.log.process.rank}", m.locations)


def whole(of_ranks: Sequence[tuple[Watch, list[Measurement]]]) -> Iterator[Measurement]:
    """Yield the job's measurements: shares weighted by the watched time, rates summed, other numbers as their median.

    What one rank did not measure is not measured of the job. The rank that waits longest gives the place, and what is
    no number. Where ranks take their steps together it gives all but sums: the others wait for it, so that its waits
    are the job's, and the mean over ranks would be less than what ending them saves.
    """
    _, of_worst = max(of_ranks, key=lambda item: ranks.waits(*item))
    together = ranks.in_step([w for w, _ in of_ranks])
    yield from (m for m in of_worst if m.subject)
    weights = [w.total for w, _ in of_ranks]
    by_rank = [{m.name: m for m in measured if not m.subject} for _, measured in of_ranks]
    place = {m.name: m.locations for m in of_worst}
    for name in dict.fromkeys(name for values in by_rank for name in values):
        there = [(weight, of[name].value) for weight, of in zip(weights, by_rank, strict=True) if name in of]
        if len(there) == len(of_ranks) or name in ABSENT_IS_NONE:
            own = next((m.value for m in of_worst if m.name == name), there[0][1])
            alone = name in OF_WORST or (together and name in place and name not in SUMS | LARGEST | {"on_gpu"})
            value = own if alone else combined(name, there, sum(weights), own)
            yield Measurement(name, value, locations=place.get(name, ()))


def combined(name: str, there: Sequence[tuple[int, Value]], total: int, own: Value) -> Value:
    """Return the job's value from those of ranks with their weights; `own` is that of the rank that waits longest."""
    if len(there) == 1 and there[0][0] == total:
        return there[0][1]
    if isinstance(own, bool) and name == "on_gpu":
        return any(bool(value) for _, value in there)
    if isinstance(own, bool | str):
        return own
    numbers = [(weight, float(value)) for weight, value in there if not isinstance(value, str)]
    if name in SUMS:
        return sum(value for _, value in numbers)
    if name in LARGEST:
        return max(value for _, value in numbers)
    if CATALOG[name].unit.startswith("of "):
        return sum(weight * value for weight, value in numbers) / total
    return median(value for _, value in numbers)


def settings(worst: Watch) -> Iterator[tuple[str, Value]]:
    """Yield the settings of the rank that waits longest, of what there is one of, and those of its loader."""
    yield from ((fact.name, fact.value) for fact in worst.log.facts if not fact.subject)
    loader_ = worst.loader_settings
    if loader_ is not None:
        for name in ("batch_size", "num_workers", "pin_memory", "prefetch_factor", "persistent_workers"):
            value = getattr(loader_, name)
            if value is not None:
                yield name, value
