"""The loader that the training waits for: what it delivers, how its workers spend their time, where they are found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whyidle.measure.step_log.nesting import HAS_WORKERS
from whyidle.measure.step_log.time import loader_place
from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Record, Stack, Worker
from whyidle.model.finding import Location
from whyidle.model.intervals import overlap, union
from whyidle.model.measurement import Measurement

WORKERS: Final = (1 << 56) - 1  # the part of an ITERATE's value that tells them
COUNTED: Final = 0.9  # of the batches: so many must tell their size
FEWEST: Final = 5  # steps of each sort that a comparison takes
APART: Final = 0.8  # of a step's work beside a batch in the making, or of it not: steps of one sort
LIBRARY: Final = re.compile(r"(?:site|dist)-packages|/lib/python\d|\bpython\d[\d.]*/|^<|_whyidle")


def measure(w: Watch) -> Iterator[Measurement]:
    """Yield what is known of a rank's loading."""
    yield from rates(w)
    loader = w.training_loader
    if loader is not None:
        yield from of_loader(w, loader)
    yield from loading_thread(w)


def rates(w: Watch) -> Iterator[Measurement]:
    """Yield how much data the training gets through, where batches tell their size."""
    found = w.batches
    usual = ~found.starts & ~found.ends
    index = found.index[usual]
    index = index[w.inside(w.rows.start[index], w.rows.end[index] + 1) > 0]
    value = w.rows.value[index].view(np.uint64)
    amounts = {
        "samples_per_s": (value >> np.uint64(32)) & np.uint64(0xFFFFFF),
        "tokens_per_s": value & np.uint64(0xFFFFFFFF),
    }
    for name, amount in amounts.items():
        told = amount > 0
        if len(amount) and np.count_nonzero(told) >= COUNTED * len(amount):
            yield Measurement(name, float(amount.sum(dtype=np.float64)) / (w.total / 1e9))


def of_loader(w: Watch, loader: int) -> Iterator[Measurement]:
    """Yield the training loader's settings as they were seen, and how batches are made."""
    found, settings, place = w.batches, w.loader_settings, loader_place(w)
    its = found.loader == loader
    begins = found.index[its & found.starts]
    count = settings.num_workers if settings is not None else None
    if count is None and len(begins):
        count = int(w.rows.value[begins[-1]] & WORKERS)
    if count is not None and 0 <= count <= 1 << 16:
        yield Measurement("num_workers", count, locations=place)
    if settings is not None and settings.persistent_workers is not None:
        yield Measurement("persistent_workers", settings.persistent_workers, locations=place)
    if settings is not None and settings.prefetch_factor is not None and count:
        yield Measurement("prefetch_factor", settings.prefetch_factor, locations=place)
    if settings is not None and settings.file_system:
        yield Measurement("data_file_system", settings.file_system)
    epochs = w.rows.start[found.index[its & (found.starts if len(begins) else found.begins)]]
    yield Measurement("epochs", int(np.count_nonzero((epochs >= w.low) & (epochs <= w.high))))
    length = settings.length if settings is not None else None
    if length:
        yield Measurement("batches_per_epoch", length)
    apart = bool((w.rows.flags[found.index[its]] & HAS_WORKERS).any())
    workers = [one for one in w.log.workers if one.loader == loader and one.fetches > 0 and (one.worker >= 0) == apart]
    if workers:
        yield from of_workers(workers)
    elif not apart:
        usual = found.index[its & ~found.begins & ~found.starts & ~found.ends]
        took = (w.rows.end - w.rows.start)[usual][w.waits.host[usual] > 0] / 1e9
        if len(took):
            yield Measurement("batch_seconds", float(took.mean()))
            yield Measurement("batch_spread", float(took.std() / took.mean()) if took.mean() > 0 else 0.0)


def of_workers(workers: Sequence[Worker]) -> Iterator[Measurement]:
    """Yield how workers spend the time in which they make batches."""
    fetches = sum(worker.fetches for worker in workers)
    seconds = sum(worker.fetch_s for worker in workers)
    if seconds <= 0:
        return
    mean = seconds / fetches
    variance = max(sum(worker.fetch_squares for worker in workers) / fetches - mean * mean, 0.0)
    yield Measurement("batch_seconds", mean)
    yield Measurement("batch_spread", variance**0.5 / mean)
    cpu = min(sum(worker.cpu_s for worker in workers) / seconds, 1.0)
    delay = min(sum(worker.run_delay_s for worker in workers) / seconds, 1.0 - cpu)
    if cpu or delay:  # a system that counts neither tells nothing
        yield Measurement("batch_cpu_share", cpu)
        yield Measurement("batch_run_delay_share", delay)
        yield Measurement("batch_blocked_share", max(1.0 - cpu - delay, 0.0))
    allowed = [worker.cpus_allowed for worker in workers if worker.cpus_allowed and worker.worker >= 0]
    if allowed:
        yield Measurement("worker_cpus_allowed", min(allowed))
    yield from looks([stack for worker in workers for stack in worker.stacks])


def looks(stacks: Sequence[Stack]) -> Iterator[Measurement]:
    """Yield what samples of workers' stacks show."""
    samples = sum(stack.count for stack in stacks)
    if not samples:
        return
    for name, state in (("look_read_share", "read"), ("look_lock_share", "lock")):
        yield Measurement(name, sum(stack.count for stack in stacks if stack.state == state) / samples)
    sites: Counter[tuple[str, int, str]] = Counter()
    for stack in stacks:
        own = next((frame for frame in stack.frames if not LIBRARY.search(frame[0])), None)
        if own is not None:
            sites[own] += stack.count
    if sites:
        file, line, function = sites.most_common(1)[0][0]
        yield Measurement("look_site", f"{file}:{line} {function}", locations=(Location(file, line, name=function),))


def loading_thread(w: Watch) -> Iterator[Measurement]:
    """Yield how much longer the steps' own work takes while another thread of the process makes a batch."""
    log = w.log
    elsewhere = (log.kind == Record.BATCH) & (log.thread != w.thread)
    if not elsewhere.any():
        return
    loading = union(log.start[elsewhere], log.start[elsewhere] + log.duration[elsewhere])
    rows = w.rows
    own = rows.of(Record.FORWARD, Record.BACKWARD, Record.STEP) & ~rows.within(
        Record.FORWARD, Record.BACKWARD, Record.STEP
    )
    own &= ~w.evaluates
    step = np.searchsorted(w.steps.end, rows.start[own], "right")
    inside = (step < len(w.steps.end)) & (rows.start[own] >= w.steps.start[0])
    start, end, step = rows.start[own][inside], rows.end[own][inside], step[inside]
    work = np.bincount(step, weights=end - start, minlength=len(w.steps.end))
    beside = np.bincount(step, weights=overlap(start, end, loading), minlength=len(w.steps.end))
    judged = w.steps.kept & (work > 0)
    part = beside[judged] / work[judged]
    with_it, without = work[judged][part >= APART], work[judged][part <= 1 - APART]
    if min(len(with_it), len(without)) >= FEWEST:
        yield Measurement("loading_thread_slowdown", float(np.median(with_it) / np.median(without)))
