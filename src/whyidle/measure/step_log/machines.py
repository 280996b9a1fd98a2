"""What counters of the machines and the job's processes tell of CPUs, storage and memory while it was watched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whyidle.measure.step_log.nesting import HAS_WORKERS
from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Node, Record, Run, Series, Value
from whyidle.model.measurement import Measurement

SHORTEST: Final = 0.5  # of the watched time: samples that cover less do not speak for it
NUMBER: Final = re.compile(r"\d{1,9}", re.ASCII)
MOST_CPUS: Final = 1 << 16  # of a range in a list that came from a file
FLEETING: Final = 3  # samples: of a process that lives shorter, much of its CPU time is in none
THREADS: Final = "torch_threads"
TRACING: Final = "tracing"


def measure(run: Run, watches: Sequence[Watch]) -> Iterator[Measurement]:
    """Yield what is known of the machine on which ranks wait for data longest, and of its processes."""
    worst = max(watches, key=lambda w: w.shares["data"])
    node = worst.node
    if node is None:
        return
    here = [w for w in watches if w.node is node]
    series = [one for one in run.series if one.node == node.name]
    low, high = min(w.low for w in here), max(w.high for w in here)
    yield from cpus(worst, node, series, low, high)
    if not fleeting(here, series):
        yield from others(node, series, low, high)
    yield from machine(series, low, high)
    yield from threads(worst, series)
    yield Measurement("ranks_on_machine", max(sum(w.node is one for w in watches) for one in run.nodes))
    yield from compute_threads(here)
    tracing = worst.fact(TRACING)
    if tracing is not None:
        yield Measurement("tracing", str(tracing) if tracing is not False else "")
    yield from numa(worst, node)


def numa(w: Watch, node: Node) -> Iterator[Measurement]:
    """Yield whether a process may run only on CPUs away from its GPU's; nothing where one of the two is not known."""
    device = gpu_of(w)
    near = next((f.value for f in node.facts if f.name == "numa_cpus" and f.subject == f"gpu {device}"), None)
    own, all_near = listed(w.fact("affinity")), listed(near)
    if own and all_near:
        yield Measurement("numa_mismatch", not own & all_near)


def gpu_of(w: Watch) -> int | None:
    """Return the GPU of a process as NVML numbers it; None where a variable renames the GPUs in another way."""
    visible, local = w.fact("CUDA_VISIBLE_DEVICES"), w.log.process.local_rank or 0
    if visible is None:
        return local
    numbers = str(visible).split(",")
    return int(numbers[local]) if local < len(numbers) and NUMBER.fullmatch(numbers[local].strip()) else None


def listed(cpus: Value | None) -> set[int]:
    """Return the CPUs of a list as Linux writes it: `0-3,8`; empty for what is none."""
    found: set[int] = set()
    for part in str(cpus or "").split(","):
        first, _, last = part.strip().partition("-")
        if NUMBER.fullmatch(first) and NUMBER.fullmatch(last or first) and int(last or first) - int(first) < MOST_CPUS:
            found.update(range(int(first), int(last or first) + 1))
    return found


def rate(one: Series, low: int, high: int) -> float | None:
    """Return by how much a counter grows per second in the watched time; None where too few samples lie in it."""
    inside = (one.time >= low) & (one.time <= high) & ~np.isnan(one.value)
    time, value = one.time[inside], one.value[inside]
    if len(time) < 2 or time[-1] - time[0] < SHORTEST * (high - low):
        return None
    return float(max(value[-1] - value[0], 0.0)) / (float(time[-1] - time[0]) / 1e9)


def number(node: Node, name: str) -> float | None:
    value: Value | None = next((fact.value for fact in node.facts if fact.name == name and not fact.subject), None)
    return None if value is None or isinstance(value, str) else float(value)


def growth(series: Sequence[Series], name: str, low: int, high: int) -> float | None:
    """Return by how much a counter of processes grows per second in the watched time, all of them together.

    A process that has no sample before others had one began between two samples: all of its first count is new. Such
    are the workers that each epoch starts. Its role may become known late, and its number be used again.
    """
    ours = [one for one in series if one.name == name and one.pid is not None and len(one.time)]
    times = np.unique(np.concatenate([one.time for one in ours])) if ours else np.empty(0, np.int64)
    inside = times[(times >= low) & (times <= high)]
    if len(inside) < 2 or inside[-1] - inside[0] < SHORTEST * (high - low):
        return None
    grown = 0.0
    for pid in {one.pid for one in ours}:
        its = [one for one in ours if one.pid == pid]
        time = np.concatenate([one.time for one in its])
        order = np.argsort(time, kind="stable")
        value = np.concatenate([one.value for one in its])[order]
        time, value = time[order][~np.isnan(value)], value[~np.isnan(value)]
        if not len(value):
            continue
        new = np.diff(value, prepend=0.0 if time[0] > times[0] else value[0])
        new = np.where(new < 0, value, new)  # another process of that number
        grown += float(new[(time > inside[0]) & (time <= inside[-1])].sum())
    return grown / (float(inside[-1] - inside[0]) / 1e9)


def cpus(worst: Watch, node: Node, series: Sequence[Series], low: int, high: int) -> Iterator[Measurement]:
    """Yield how many CPUs there are for the job, and how many it uses."""
    online, affinity, quota = (
        count if (count := number(node, name) or 0.0) > 0 else None for name in ("cpus", "cpus_allowed", "cpu_quota")
    )
    allowed = min((count for count in (online, affinity, quota) if count), default=None)
    if online:
        yield Measurement("cpus_online", int(online))
        yield Measurement("cpu_quota", min(quota, online) if quota else online)
    if allowed:
        yield Measurement("cpus_allowed", allowed)
    computing, reading = (growth(series, name, low, high) for name in ("cpu_s", "read_bytes"))
    if allowed and computing is not None:
        yield Measurement("job_cpu_share", min(computing / allowed, 1.0))
    if reading is not None:
        yield Measurement("storage_read_bytes_per_s", reading)
    ours = [one for one in series if one.name == "cpus_allowed" and one.role in {"rank", "worker"}]
    used = [float(np.nanmedian(one.value)) for one in ours]
    own = worst.fact("cpus_allowed")
    used += [float(own)] if isinstance(own, int) else []
    if used and affinity:
        yield Measurement("affinity_narrowed", min(used) < affinity)


def others(node: Node, series: Sequence[Series], low: int, high: int) -> Iterator[Measurement]:
    """Yield the CPUs that other programs use: what keeps the whole machine busy, outside a container too, less ours."""
    online = number(node, "cpus")
    busy = next((rate(one, low, high) for one in series if one.name == "cpu_busy_s" and one.pid is None), None)
    ours = growth(series, "cpu_s", low, high)
    if online and busy is not None and ours is not None:
        yield Measurement("cpus_taken", min(max(busy - ours, 0.0), online))


def fleeting(here: Sequence[Watch], series: Sequence[Series]) -> bool:
    """Say whether workers end so soon that samples miss them: what they use looks like another program's."""
    times = next((one.time for one in series if one.name == "cpu_busy_s" and len(one.time) > 1), None)
    if times is None:
        return False
    soon = FLEETING * float(np.median(np.diff(times)))
    return any(_starts(w) > w.total / soon for w in here if soon > 0)


def _starts(w: Watch) -> int:
    """Return how often a process started workers in the watched time."""
    log = w.log
    began = (log.kind == Record.ITERATE) & (log.flags & HAS_WORKERS != 0) & (log.start >= w.low) & (log.start < w.high)
    keep = {one.loader for one in log.loaders if one.persistent_workers}
    return int(np.count_nonzero(began & ~np.isin(log.value.view(np.uint64) >> np.uint64(56), list(keep))))


def machine(series: Sequence[Series], low: int, high: int) -> Iterator[Measurement]:
    """Yield how much of the time tasks waited for CPUs and storage."""
    rates = {one.name: rate(one, low, high) for one in series if one.pid is None and one.device is None}
    for name, counter in (("cpu_pressure_share", "cpu_pressure_us"), ("io_pressure_share", "io_pressure_us")):
        per_s = rates.get(counter)
        if per_s is not None:
            yield Measurement(name, min(per_s / 1e6, 1.0))
    held, periods, throttled = (rates.get(name) for name in ("throttled_us", "periods", "throttled_periods"))
    if held is not None:
        # Throttled time counts each CPU's; there is no more of it than of periods in which it happened.
        part = throttled / periods if periods and throttled is not None else 1.0
        yield Measurement("cpu_throttled_share", min(held / 1e6, part, 1.0))


def threads(w: Watch, series: Sequence[Series]) -> Iterator[Measurement]:
    """Yield what the training process's main thread gets of a CPU."""
    own = {one.name: one for one in series if one.pid == w.log.process.pid}
    for name, counter in (("main_run_delay_share", "run_delay_s"), ("main_cpu_share", "main_thread_cpu_s")):
        if counter in own:
            per_s = rate(own[counter], w.low, w.high)
            if per_s is not None:
                yield Measurement(name, min(per_s, 1.0))


def compute_threads(here: Sequence[Watch]) -> Iterator[Measurement]:
    """Yield how many threads PyTorch may use at once on a machine, where every rank tells."""
    told = [w.fact(THREADS) for w in here]
    if all(isinstance(count, int) and not isinstance(count, bool) for count in told):
        workers = sum(worker.threads or 1 for w in here for worker in w.log.workers if worker.worker >= 0)
        yield Measurement("compute_threads", sum(int(count) for count in told if count is not None) + workers)
