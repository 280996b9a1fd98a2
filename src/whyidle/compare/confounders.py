"""What else differs between two runs than what was changed on purpose, so that the difference may come from it.

What makes the two incomparable blocks the verdict: another GPU, another model, clocks far apart. What may bear on it is
a doubt, said beside it. A setting that differs is the change itself, and listed. What was not recorded of both is not
known to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.compare.arms import Repeat
from whyidle.compare.pace import Pace
from whyidle.compare.same_model import models, products_of
from whyidle.compare.same_steps import ENOUGH
from whyidle.compare.work import common_work
from whyidle.measure.step_log.gpus import BUSY_PERCENT, of_job, on_node
from whyidle.model.comparison import Confounder, Weight
from whyidle.model.evidence import Series, Value
from whyidle.model.finding import Summary

# Of the lower clock (judgement): what computes changes as much. Boost clocks of one GPU wander by a few percent with
# its temperature; a tenth is ten times what counts as a change at all.
CLOCKS_APART, CLOCKS_DOUBTED = 0.10, 0.03
CAPPED: Final = 0.10  # of busy samples: more power capping explains a lower clock of a GPU that has more to do
# Read from storage per step, and times as much as in the other run: a batch that doubled reads twice (judgement).
COLD_BYTES, COLD = 1e6, 3.0
# CPUs that other programs use, and by how much the time differs that the training thread waits for one (judgement)
CROWD, CROWDED_APART = 0.5, 0.05
CROWDS: Final = frozenset(("cpus_taken", "main_run_delay_share"))  # tell that other programs had CPUs the job wanted
VERSIONS: Final = ("python", "torch_version", "cuda", "hip", "cudnn", "nccl")
PROFILED: Final = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")
# They follow from others, differ by themselves, or are told apart from the rest.
NOT_NOTED: Final = frozenset(
    (
        *VERSIONS, *PROFILED, "model", "parameters", "world_size", "tracing", "simulated", "compiled", "cpus_allowed",
        "optimizer_site", "affinity", "cuda_available", "cuda_why_not", "RANK", "LOCAL_RANK", "WORLD_SIZE",
        "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "TORCHELASTIC_RESTART_COUNT",
    )
)  # fmt: skip
ABSENT: Final = "not set"


@dataclass(frozen=True, slots=True)
class Counter:
    """A number that should be alike in both runs, and from what difference on it is doubted."""

    name: str  # of the measurement
    apart: float
    unit: str
    message: str
    scale: float = 1.0  # from the measurement's unit to this one

    def said(self, value: float) -> str:
        return f"{value * self.scale:,.3g}{self.unit}"


# All limits are judgement: about what moves a step by the 1% that counts as a change.
COUNTERS: Final = (
    Counter("throttle_thermal_share", 0.05, "%", "heat held the GPU back in {} and {} of the busy samples.", 100),
    Counter("throttle_power_share", 0.10, "%", "its power limit held the GPU back in {} and {} of the samples.", 100),
    Counter("power_limit_share", 0.02, "%", "the power limit was {} and {} of the GPU's default.", 100),
    Counter("foreign_share", 0.05, "%", "another job's processes were on the GPU in {} and {} of the samples.", 100),
    Counter("foreign_memory_bytes", 2**30, " GiB", "other processes held {} and {} of the GPU's memory.", 2.0**-30),
    Counter("cpus_taken", 0.5, " CPUs", "other programs used {} and {}."),
)  # fmt: skip


def between(before: Repeat, after: Repeat) -> tuple[Confounder, ...]:
    """Return what differs, what blocks first."""
    found = [
        *_damaged(before, after),
        *_hardware(before, after),
        *models(before, after),
        *_clocks(before, after),
        *_machine(before, after),
        *_counters(before, after),
        *_marks(before, after),
        *_settings(before, after),
    ]
    weights: Sequence[Weight] = ("blocks", "doubts", "noted")
    return tuple(sorted(found, key=lambda each: weights.index(each.weight)))


def not_recorded(before: Repeat, after: Repeat) -> tuple[str, ...]:
    """Return what should be alike and is not known of both runs."""
    used = any(_on_gpu(one.report.summary) for one in (before, after))
    known: dict[str, bool] = {
        "the machine": bool(_hosts(before) and _hosts(after)),
        "the model": _told(before, after, "model") or None not in (products_of(before), products_of(after)),
        "versions": _told(before, after, "torch_version"),
        "the batch size": bool(before.samples_per_step and after.samples_per_step),
        "other programs' CPU time": _counted(before, after, "cpus_taken"),
        "reads from storage": _counted(before, after, "storage_read_bytes_per_s"),
    }
    if used:
        known |= {
            "the GPU": bool(_gpus(before) and _gpus(after)),
            "the driver": bool(_driver(before) and _driver(after)),
            "clocks": None not in (sm_clock_mhz(before), sm_clock_mhz(after)),
            "the power limit": _counted(before, after, "power_limit_share"),
            "other jobs on the GPU": _counted(before, after, "foreign_share"),
        }
    return tuple(name for name, is_known in known.items() if not is_known)


def differs(name: str, values: Sequence[object], weight: Weight, message: str) -> Confounder:
    """Return a difference between two values, that of BEFORE first."""
    before, after = map(str, values)
    return Confounder(name, before, after, weight, message)


def _damaged(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    """Yield that a recording cannot be believed, as a diagnosis of it says as well."""
    for name, one in (("BEFORE", before), ("AFTER", after)):
        if one.doubt:
            yield differs("evidence", ("", ""), "blocks", f"{name} cannot be believed: {one.doubt}")


def _hardware(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    had, has = _gpus(before), _gpus(after)
    if had and has and had != has:
        names = [" and ".join(sorted(gpus)) for gpus in (had, has)]
        message = f"they ran on different GPUs ({names[0]}; {names[1]})."
        yield differs("gpu", names, "blocks", message)
    used = [_on_gpu(one.report.summary) for one in (before, after)]
    if None not in used and used[0] != used[1]:
        said = ["a GPU" if one else "no GPU" for one in used]
        yield differs("on_gpu", said, "blocks", f"BEFORE used {said[0]}, AFTER {said[1]}.")
    sizes = [one.report.run.world_size for one in (before, after)]
    if None not in sizes and sizes[0] != sizes[1]:
        message = f"they had {sizes[0]} and {sizes[1]} ranks (`whyidle scaling` compares numbers of GPUs)."
        yield differs("world_size", sizes, "blocks", message)
        return
    recorded = [_ranks(one) for one in (before, after)]
    if None in sizes and all(recorded) and recorded[0] != recorded[1]:
        message = f"{recorded[0]} and {recorded[1]} ranks were recorded (`whyidle scaling` compares numbers of GPUs)."
        yield differs("ranks", recorded, "blocks", message)
        return
    counts = [sum(gpu.count for gpu in one.report.run.gpus) for one in (before, after)]
    if None in sizes and all(counts) and counts[0] != counts[1]:
        yield differs("gpus", counts, "doubts", f"{counts[0]} and {counts[1]} GPUs were recorded.")


def _ranks(one: Repeat) -> int:
    """Return how many ranks were recorded; a process that names none is one."""
    found = {log.process.rank for log in one.run.logs} or {trace.rank for trace in one.run.traces}
    return len(found)


def _on_gpu(summary: Summary) -> bool | None:
    return True if summary.gpu_busy_share is not None else summary.on_gpu


def _gpus(one: Repeat) -> set[str]:
    names = {gpu.name.removeprefix("NVIDIA ").strip() for gpu in one.report.run.gpus}
    return names - {"", "unknown GPU"}


def _clocks(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    had, has = sm_clock_mhz(before), sm_clock_mhz(after)
    if had is None or has is None or min(had, has) <= 0:
        return
    apart = max(had, has) / min(had, has) - 1
    if apart < CLOCKS_DOUBTED:
        return
    lower, higher = (before, after) if had < has else (after, before)
    capped = _number(lower, "throttle_power_share") or 0.0
    more = capped - (_number(higher, "throttle_power_share") or 0.0)
    explained = more >= CAPPED and _use(lower) > _use(higher)
    why = " The one with the lower clock had more to do, and met its power limit." if explained else ""
    weight: Weight = "blocks" if apart > CLOCKS_APART and not explained else "doubts"
    message = f"the SM clock was {had:,.0f} and {has:,.0f} MHz while the GPU was busy, {apart:.0%} apart.{why}"
    yield differs("sm_clock_mhz", (f"{had:.0f}", f"{has:.0f}"), weight, message)


def _use(one: Repeat) -> float:
    return one.report.summary.utilization_mean_share or 0.0


def sm_clock_mhz(one: Repeat) -> float | None:
    """Return the median SM clock of the samples in which a GPU of the job was busy, of several the median."""
    watched = of_job([gpu for node in one.run.nodes for gpu in on_node(one.run, node)])
    columns = [gpu.while_busy("sm_clock_mhz") for gpu in watched]
    for curve in one.run.curves:
        busy = {_subject(each): each for each in curve.series if each.name == "utilization_percent"}
        for clock in (each for each in curve.series if each.name == "sm_clock_mhz"):
            load = busy.get(_subject(clock))
            same = load is not None and np.array_equal(load.time, clock.time)
            columns.append(clock.value[load.value >= BUSY_PERCENT] if load is not None and same else clock.value)
    known = [column[np.isfinite(column)] for column in columns]
    return float(np.median([np.median(column) for column in known if len(column)])) if any(map(len, known)) else None


def _subject(each: Series) -> tuple[str, int | None, str]:
    return each.node, each.device, each.instance


def _machine(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    had, has = _hosts(before), _hosts(after)
    if had and has and had != has:
        names = [", ".join(sorted(hosts)) for hosts in (had, has)]
        yield differs("node", names, "doubts", f"they ran on different machines ({names[0]}; {names[1]}).")
    drivers = [_driver(before), _driver(after)]
    if all(drivers) and drivers[0] != drivers[1]:
        yield differs("driver", drivers, "doubts", f"the driver differs ({drivers[0]}, {drivers[1]}).")
    for name in VERSIONS:
        old, new = (one.report.run.settings.get(name) for one in (before, after))
        if old is not None and new is not None and old != new:
            yield differs(name, (old, new), "doubts", f"{name.removesuffix('_version')} is {old} and {new}.")
    cpus = [_number(one, "cpus_allowed") for one in (before, after)]
    if cpus[0] and cpus[1] and cpus[0] != cpus[1]:
        yield differs("cpus_allowed", cpus, "doubts", f"they could use {cpus[0]:g} and {cpus[1]:g} CPUs.")


def _hosts(one: Repeat) -> set[str]:
    traces = {str(trace.metadata.get("host_name", "")) for trace in one.run.traces}
    return ({node.host for node in one.run.nodes} | traces) - {""}


def _driver(one: Repeat) -> str:
    """Return the version of CUDA or HIP that the driver is for, as a trace tells it."""
    for trace in one.run.traces:
        for name in ("cuda_driver_version", "hip_driver_version"):
            if name in trace.metadata:
                return str(trace.metadata[name])
    return ""


def _counters(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    for counter in COUNTERS:
        had, has = _number(before, counter.name), _number(after, counter.name)
        if had is not None and has is not None and abs(had - has) >= counter.apart:
            said = [counter.said(value) for value in (had, has)]
            yield differs(counter.name, said, "doubts", counter.message.format(*said))
    yield from _crowded(before, after)
    yield from _storage(before, after)
    tracing = [one.report.run.settings.get("tracing") for one in (before, after)]
    if None not in tracing and tracing[0] != tracing[1]:
        said = [str(each) or "nothing" for each in tracing]
        yield differs("tracing", said, "doubts", f"{said[0]} and {said[1]} looked at every line or call.")


def _crowded(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    """Yield that a job waited for CPUs that other programs had more in one run than in the other."""
    taken = [_number(one, "cpus_taken") for one in (before, after)]
    delays = [_number(one, "main_run_delay_share") for one in (before, after)]
    if taken[0] is None or taken[1] is None or delays[0] is None or delays[1] is None:
        return
    if max(taken[0], taken[1]) >= CROWD and abs(delays[0] - delays[1]) >= CROWDED_APART:
        said = [f"{each:.0%}" for each in (delays[0], delays[1])]
        message = f"other programs used {taken[0]:.2g} and {taken[1]:.2g} CPUs, and the training thread waited for one "
        yield differs("main_run_delay_share", said, "doubts", f"{message}in {said[0]} and {said[1]} of the time.")


def _storage(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    """Yield that one run read its data from storage, and the other from the page cache."""
    rates = [_number(one, "storage_read_bytes_per_s") for one in (before, after)]
    steps = [one.report.summary.step_time_mean_s for one in (before, after)]
    read = [rate * step for rate, step in zip(rates, steps, strict=True) if rate is not None and step is not None]
    if len(read) == 2 and max(read) >= COLD_BYTES and max(read) > COLD * min(read):
        said = [f"{each / 1e6:,.3g} MB" for each in read]
        message = f"{said[0]} and {said[1]} per step were read from storage: the page cache held more in one of them."
        yield differs("storage_read_bytes_per_step", said, "doubts", message)


def _marks(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    """Yield that steps were recognised in different ways, or that a profiler recorded more in one of the two."""
    paces = [one.pace for one in (before, after) if one.pace is not None]
    marks = [pace.source for pace in paces]
    if len(marks) == 2 and marks[0] != marks[1]:
        message = f"steps were recognised by {marks[0]} and by {marks[1]}: they may not be the same work."
        yield differs("steps_from", marks, "doubts", message)
    elif len(paces) == 2:
        work = common_work([before], [after])
        yield from _numbers(paces[0], paces[1], 1.0 if isinstance(work, str) else work[1])
    if any(one.measured.watched.logs for one in (before, after)):
        return  # their steps are those without a profiler
    for name in PROFILED:
        old, new = (bool(one.report.run.settings.get(name)) for one in (before, after))
        if old != new and before.measured.analyses and after.measured.analyses:
            message = f"the profiler ran with {name}={old} and {name}={new}, and takes its time."
            yield differs(name, (old, new), "doubts", message)


def _numbers(before: Pace, after: Pace, work: float) -> Iterator[Confounder]:
    """Yield that the two hold other steps of the job, or that a log tells of more of them in a line.

    Args:
        before: steps that are compared.
        after: the same of the other run.
        work: of one of its steps, over that of one before.
    """
    had, has = before.span, after.span
    if had is None or has is None:
        return
    if max(_in_common(had, has, 1.0), _in_common(had, has, work)) < ENOUGH:
        said = [f"{first:,}–{last:,}" for first, last in (had, has)]
        message = f"they hold steps {said[0]} and {said[1]}: where a schedule changes the work, that is not the same."
        yield differs("steps", said, "doubts", message)
    every = [before.interval, after.interval]
    if every[0] != every[1]:
        message = f"a line of the log is the mean of {every[0]} and of {every[1]} steps: medians are not comparable."
        yield differs("log_interval", every, "doubts", message)


def _in_common(had: tuple[int, int], has: tuple[int, int], work: float) -> float:
    """Return how much two ranges of steps have in common, of the longer; a step of the second is so many of the first.

    Below 0 they lie apart.
    """
    common = min(had[1], has[1] * work) - max(had[0] - 1, (has[0] - 1) * work)
    return common / max(had[1] - had[0] + 1, (has[1] - has[0] + 1) * work)


def _settings(before: Repeat, after: Repeat) -> Iterator[Confounder]:
    """Yield the settings that differ: the change itself, as far as it was recorded."""
    both = bool(before.measured.watched.logs and after.measured.watched.logs)
    had, has = settings_of(before), settings_of(after)
    for name in sorted({*had, *has} - NOT_NOTED):
        old, new = had.get(name, ABSENT if both else None), has.get(name, ABSENT if both else None)
        if old is not None and new is not None and old != new:
            yield differs(name, (old, new), "noted", f"{name}: {old} → {new}")
    commands = [one.run.nodes[0].command if one.run.nodes else () for one in (before, after)]
    if all(commands) and commands[0] != commands[1]:
        old_, new_ = (_options(command) for command in commands)
        said = [" ".join(part for part in mine if part not in its) for mine, its in ((old_, new_), (new_, old_))]
        yield differs("command", said, "noted", f"command: {_exchanged(*said)}")


def settings_of(one: Repeat) -> dict[str, Value]:
    """Return the settings of a run, with the precision of its autocast regions."""
    facts = [fact for log in one.measured.watched.logs for fact in log.facts]
    autocast = {fact.name: fact.value for fact in facts if fact.name == "autocast_dtype"}
    return {**autocast, **one.report.run.settings}


def _exchanged(old: str, new: str) -> str:
    """Return what of a command line gave way to what."""
    if old and new:
        return f"{old} → {new}"
    return f"with {new}" if new else f"without {old}" if old else "its parts in another order"


def _options(command: Sequence[str]) -> list[str]:
    """Return the parts of a command line, options with their values."""
    parts: list[str] = []
    for word in command:
        if parts and parts[-1].startswith("-") and " " not in parts[-1] and not word.startswith("-"):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


def _number(one: Repeat, name: str) -> float | None:
    m = one.measured.measurements
    return m.number(name) if name in m else None


def _told(before: Repeat, after: Repeat, name: str) -> bool:
    return name in before.report.run.settings and name in after.report.run.settings


def _counted(before: Repeat, after: Repeat, name: str) -> bool:
    return _number(before, name) is not None and _number(after, name) is not None
