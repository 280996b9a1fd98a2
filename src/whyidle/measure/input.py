"""Does the GPU wait for data, and who loads it?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index
from whyidle.model.evidence import Ints, Kind
from whyidle.model.intervals import overlap, union
from whyidle.model.measurement import Measurement

ALIKE = 2  # times: waits that differ by less are alike (judgement: batches vary by half their mean)
SHORTEST_EPOCH = 3  # batches; every other one that is slow begins no epoch (judgement)


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of the DataLoader and of the user's own loading ranges; nothing where none is recorded.

    A training and a validation loader may differ: idle time is told by the kind of loader that it was spent in.
    """
    t = a.t
    loader = t.host_like(names.LOADER, Kind.RANGE, Kind.PYTHON)
    own = t.host_like(names.DATA_RANGE, Kind.RANGE)
    if len(loader) or len(own):
        yield Measurement("data_wait_share", a.host_share(loader if len(loader) else own))
    zero, workers = kinds_of_loader(a)
    if len(zero) or len(workers):
        yield from idle_in("idle_loader_zero_share", a, zero)
        yield from idle_in("idle_loader_workers_share", a, workers)
        if a.steps:
            batches = t.host.start[np.concatenate((zero, workers))]
            yield Measurement("loader_batches_per_step", a.per_step(batches))
        yield from first_wait(a, workers)
    if len(own) or len(loader):
        outside = a.idle_share("data_wait") - a.idle_inside("data_wait", loader)
        yield Measurement("idle_data_range_share", max(outside, 0.0), locations=a.places("data_wait", own))


def kinds_of_loader(a: Analysis) -> tuple[Index, Index]:
    """Return the calls of loaders without and with workers.

    Where only Python frames were recorded, a call that fetches samples in the thread that asks has no workers.
    """
    t, h = a.t, a.t.host
    zero, workers = t.host_like(names.LOADER_IN_PROCESS, Kind.RANGE), t.host_like(names.LOADER_WORKERS, Kind.RANGE)
    frames = t.host_like(names.LOADER, Kind.PYTHON)
    if len(zero) or len(workers) or not len(frames):
        return zero, workers
    fetches = t.host_like(names.LOADER_FETCH, Kind.PYTHON)
    around = t.enclosing(h.start[fetches], h.thread[fetches], frames)
    fetching = np.isin(frames, around)
    return frames[fetching], frames[~fetching]


def first_wait(a: Analysis, workers: Index) -> Iterator[Measurement]:
    """Yield how much of the wait for workers falls into the first batch; nothing where one batch is all there is.

    A loader that starts its workers anew in each epoch makes a wait like the first in every so manieth batch.
    """
    waited = idle_of_each(a, workers)
    if waited.sum() == 0:
        yield Measurement("loader_first_wait_share", 0.0)
    elif len(workers) > 1:
        first = float(waited[0] / waited.sum())
        yield Measurement("loader_first_wait_share", first, locations=a.host_places(workers[:1]))
        starts = recurring(a.t.host.end[workers] - a.t.host.start[workers])
        yield Measurement("loader_start_waits", len(starts))
        alike = float(waited[starts].sum() / waited.sum())
        yield Measurement("loader_start_wait_share", alike, locations=a.host_places(workers[starts]))


def first_batches(a: Analysis) -> Index:
    """Return the calls of a loader with workers for the first batch, and for those that take as long, and recur."""
    workers = kinds_of_loader(a)[1]
    return workers[recurring(a.t.host.end[workers] - a.t.host.start[workers])] if len(workers) else workers


def recurring(took: Ints) -> Index:
    """Return the batches that take about as long as the first, if these recur evenly; else the first alone."""
    long = np.flatnonzero(took * ALIKE >= took[0])
    if len(long) > 1 and long[1] >= SHORTEST_EPOCH and took[long].max() <= ALIKE * took[0]:
        every = np.arange(0, len(took), long[1])
        if np.array_equal(long, every):
            return every
    return np.zeros(1, np.intp)


def idle_in(name: str, a: Analysis, loader: Index) -> Iterator[Measurement]:
    """Yield the idle time spent waiting inside these calls of a loader."""
    yield Measurement(name, a.idle_inside("data_wait", loader), locations=a.places("data_wait", loader))


def idle_of_each(a: Analysis, calls: Index) -> Ints:
    """Return the idle time of all devices in each of these calls, ns."""
    idle = [spans for _, spans in a.idle("data_wait")]
    merged = union(np.concatenate([s.start for s in idle]), np.concatenate([s.end for s in idle]))
    return overlap(a.t.host.start[calls], a.t.host.end[calls], merged)
