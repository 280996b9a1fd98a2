"""What a look at a running job from outside measures: who computes, who waits, and for what.

A main thread that sleeps while another thread of its process computes (the backward pass, a pool of OpenMP) does not
wait for anybody: only the rest of its sleep is called waiting, which is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whyidle.measure.step_log import gpus
from whyidle.model.evidence import Stack
from whyidle.model.finding import Location
from whyidle.model.live import Live, LiveProcess
from whyidle.model.measurement import Measurement, Measurements

LOADER: Final = "torch/utils/data/dataloader.py"
FETCH: Final = "torch/utils/data/_utils/fetch.py"
WORKER: Final = "torch/utils/data/_utils/worker.py"
WAITS: Final = ("_try_get_data", "_get_data")
LIBRARIES: Final = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen", "<string>")
LEAST_SAMPLES: Final = 5  # of a thread: fewer say nothing of it
READS: Final = 0.1  # of look in reads: it waits for these
IDLES: Final = 0.05  # of look: a job that computes less does nothing
ZERO_PERCENT: Final = 5.0  # of utilization: no GPU works below, as `curve_zero_share` counts
LEAST_SEEN: Final = 0.25  # of the look: a process that was there for less does not speak for its kind


def measure(live: Live) -> Measurements:
    """Return what was measured of a job that was looked at; nothing of the training where no process is known to."""
    return Measurements(_all(live))


def _all(live: Live) -> Iterator[Measurement]:
    yield Measurement("live_s", live.seconds)
    if live.on_gpu is not None:
        yield Measurement("on_gpu", live.on_gpu)
    for name, value in live.machine.items():
        yield Measurement(name, value)
    yield from gpus.counted(_gpus(live))
    yield from _threads(live)
    reads = [process.read_bytes for process in live.processes if process.read_bytes is not None]
    if reads:
        yield Measurement("storage_read_bytes_per_s", sum(reads) / live.seconds)
    ranks = [process for process in live.processes if process.role == "rank" and _enough(process, live)]
    if ranks:
        yield Measurement("ranks_on_machine", len(ranks))
        rank = max(ranks, key=lambda one: waits_share(one) or 0.0)
        yield from _rank(rank)
        yield from _workers(live, rank)
        yield from _held(live, ranks)


def slowest(live: Live) -> LiveProcess | None:
    """Return the training process that waits longest: the one that is judged; None if there is none."""
    ranks = [process for process in live.processes if process.role == "rank" and _enough(process, live)]
    return max(ranks, key=lambda one: waits_share(one) or 0.0, default=None)


def _enough(process: LiveProcess, live: Live) -> bool:
    return process.seen_s >= LEAST_SEEN * live.seconds


def waits_share(process: LiveProcess) -> float | None:
    """Return how much of the time a process's main thread sleeps and no thread of it computes; None if not known."""
    if process.main_cpu_s is None or process.cpu_s is None or not process.seen_s:
        return None
    others = max(process.cpu_s - process.main_cpu_s, 0.0)
    busy = process.main_cpu_s + (process.main_run_delay_s or 0.0) + others
    return min(max(1 - busy / process.seen_s, 0.0), 1.0)


def _rank(rank: LiveProcess) -> Iterator[Measurement]:
    waits = waits_share(rank)
    if waits is not None and rank.main_cpu_s is not None and rank.cpu_s is not None:
        yield Measurement("live_main_waits_share", waits)
        yield Measurement("main_cpu_share", min(rank.main_cpu_s / rank.seen_s, 1.0))
        yield Measurement("live_process_cpu_share", min(rank.cpu_s / rank.seen_s, 1.0))
    if rank.main_run_delay_s is not None:
        yield Measurement("main_run_delay_share", min(rank.main_run_delay_s / rank.seen_s, 1.0))
    read = _doing(rank, "read")
    if read is not None:
        yield Measurement("live_main_read_share", read)
    if sum(stack.count for stack in rank.stacks) >= LEAST_SAMPLES:
        place = site(rank.stacks)
        yield Measurement("live_loader_wait_share", _share(rank.stacks, _waits_for_workers))
        yield Measurement("live_loader_fetch_share", _share(rank.stacks, _makes_batch))
        if place:
            yield Measurement("live_main_site", place[0], locations=(place[1],))


def _workers(live: Live, rank: LiveProcess) -> Iterator[Measurement]:
    own = [one for one in live.processes if one.role == "worker" and one.parent == rank.pid]
    there = [one for one in own if not one.ended]
    yield Measurement("live_workers", len(there) or len(own))
    known = [one for one in own if _enough(one, live) and one.cpu_s is not None]
    if not known:
        yield from _files([rank])
        return
    computing = [min((one.cpu_s or 0.0) / one.seen_s, 1.0) for one in known]
    yield Measurement("live_workers_cpu_share", float(np.mean(computing)))
    delays = [min(one.main_run_delay_s / one.seen_s, 1.0) for one in known if one.main_run_delay_s is not None]
    if len(delays) == len(known):
        yield Measurement("live_workers_run_delay_share", float(np.mean(delays)))
    blocked = [share for one in known if (share := _blocked(one)) is not None]
    if len(blocked) == len(known):
        yield Measurement("live_workers_blocked_share", float(np.mean(blocked)))
    allowed = [one.cpus_allowed for one in known if one.cpus_allowed]
    if allowed:
        yield Measurement("worker_cpus_allowed", int(np.median(allowed)))
    place = site([stack for one in known for stack in one.stacks if _makes_batch(stack)])
    if place:
        yield Measurement("live_workers_site", place[0], locations=(place[1],))
    yield from _files(known)


def _blocked(worker: LiveProcess) -> float | None:
    """Return how much of its time a worker is blocked inside a batch.

    Without its stack only reads are known to be that: what sleeps in a queue may just have nothing to do.
    """
    if _doing(worker, "read") is None:
        return None
    read = (_doing(worker, "read") or 0.0) + (_doing(worker, "socket") or 0.0)
    if sum(stack.count for stack in worker.stacks) < LEAST_SAMPLES:
        return read
    asleep = sum(_doing(worker, kind) or 0.0 for kind in ("read", "socket", "wait", "sleep", "other"))
    computing = (worker.cpu_s or 0.0) + (worker.main_run_delay_s or 0.0)
    inside = _share(worker.stacks, _makes_batch) - computing / worker.seen_s
    return max(read, min(inside, asleep))


def _doing(process: LiveProcess, kind: str) -> float | None:
    total = sum(process.doing.values())
    return process.doing.get(kind, 0) / total if total >= LEAST_SAMPLES else None


def _share(stacks: Sequence[Stack], of: object) -> float:
    assert callable(of)
    return sum(stack.count for stack in stacks if of(stack)) / sum(stack.count for stack in stacks)


def _waits_for_workers(stack: Stack) -> bool:
    """Say whether the innermost thing of PyTorch's loader on a stack is the wait for a worker's batch."""
    return any(file.endswith(LOADER) and function.split(".")[-1] in WAITS for file, _, function in _own(stack))


def _makes_batch(stack: Stack) -> bool:
    return any(file.endswith(FETCH) for file, _, _ in _own(stack))


def _own(stack: Stack) -> Iterator[tuple[str, int, str]]:
    """Yield a stack's frames as far as they are the process's own: below them lies what its parent did at the fork."""
    for frame in stack.frames:
        yield frame
        if frame[0].endswith(WORKER):
            return


def site(stacks: Sequence[Stack]) -> tuple[str, Location] | None:
    """Return the line of the user's own code that was met most, innermost on a stack, and its place; None: none."""
    lines: Counter[tuple[str, int, str]] = Counter()
    for stack in stacks:
        own = (frame for frame in _own(stack) if not any(part in frame[0] for part in LIBRARIES))
        innermost = next(own, None)
        if innermost:
            lines[innermost] += stack.count
    if not lines:
        return None
    (file, line, function), _ = lines.most_common(1)[0]
    return f"{file}:{line} {function}", Location(file, line, name=function)


def _files(processes: Sequence[LiveProcess]) -> Iterator[Measurement]:
    """Yield the file that processes are blocked on, or else read most."""
    files = [file for one in processes for file in one.files if file.file_system]
    most = max(files, key=lambda file: (file.blocked, file.moved_bytes or 0), default=None)
    if most is not None:
        yield Measurement("live_file_system", most.file_system)
        yield Measurement("live_file", most.path)


def _threads(live: Live) -> Iterator[Measurement]:
    """Yield how many threads of the job want a CPU: those that run and those that wait for one."""
    known = [one for one in live.processes if one.threads_run_delay_s is not None and one.cpu_s is not None]
    if known:
        wanting = [((one.cpu_s or 0.0) + (one.threads_run_delay_s or 0.0)) / max(one.seen_s, 1e-9) for one in known]
        yield Measurement("live_runnable_threads", float(sum(wanting)))
        yield Measurement("live_pool_threads", float(max(wanting)))


def _gpus(live: Live) -> list[gpus.Gpu]:
    """Return the GPUs that the job is on, with their counters."""
    columns: dict[int, dict[str, gpus.Column]] = {}
    for one in live.gpu_series:
        if one.device is not None:
            columns.setdefault(one.device, {})[one.name] = one.value
    return [gpus.Gpu(found, live.gpu_facts.get(device, {})) for device, found in sorted(columns.items())]


def _held(live: Live, ranks: Sequence[LiveProcess]) -> Iterator[Measurement]:
    """Yield for how much of the look the job holds its GPUs and does nothing, neither on these nor on a CPU.

    That it is on them is seen: 0 where it computes or reads, or where a kernel ran, which others than a hang explain.
    """
    used = [column for gpu in _gpus(live) if len(column := _known(gpu, "utilization_percent")) >= LEAST_SAMPLES]
    if not live.on_gpu or not used:
        return
    computing = sum(one.cpu_s or 0.0 for one in live.processes if one.role != "other") / live.seconds
    read = max((_doing(one, "read") or 0.0) for one in live.processes)
    rests = all(float(column.max()) < ZERO_PERCENT for column in used)
    held = rests and computing < IDLES * max(len(ranks), 1) and read < READS
    yield Measurement("curve_held_share", 1.0 if held else 0.0)
    yield Measurement("curve_held_s", live.seconds if held else 0.0)
    yield Measurement("curve_held_known", True)
    parts = [
        float(np.median(memory)) / whole
        for gpu in _gpus(live)
        if len(memory := _known(gpu, "memory_used_bytes")) and (whole := gpu.fact("memory_bytes"))
    ]
    if held and parts:
        yield Measurement("curve_held_memory_share", min(max(parts), 1.0))


def _known(gpu: gpus.Gpu, name: str) -> gpus.Column:
    column = gpu.column(name)
    return column[~np.isnan(column)]
