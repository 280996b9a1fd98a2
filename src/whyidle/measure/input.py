"""Does the GPU wait for data, and who loads it?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.model.evidence import Kind
from whyidle.model.intervals import overlap, union
from whyidle.model.measurement import Measurement


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of the DataLoader and of the user's own loading ranges; nothing where none is recorded."""
    t = a.t
    loader = t.host_like(names.LOADER, Kind.RANGE, Kind.PYTHON)
    own = t.host_like(names.DATA_RANGE, Kind.RANGE)
    if len(loader) or len(own):
        yield Measurement("data_wait_share", a.host_share(loader if len(loader) else own))
    if len(loader):
        yield Measurement(
            "idle_loader_share", a.idle_inside("data_wait", loader), locations=a.places("data_wait", loader)
        )
        yield from batches(a)
    if len(own) or len(loader):
        outside = a.idle_share("data_wait") - a.idle_inside("data_wait", loader)
        yield Measurement("idle_data_range_share", max(outside, 0.0), locations=a.places("data_wait", own))
    in_process = t.host_like(names.LOADER_IN_PROCESS, Kind.RANGE)
    if len(in_process) or len(t.host_like(names.LOADER_WORKERS, Kind.RANGE)):
        yield Measurement("loader_in_process", bool(len(in_process)), locations=a.host_places(in_process))


def batches(a: Analysis) -> Iterator[Measurement]:
    """Yield how often the loader is asked, and whether the wait is for the first batch only."""
    h = a.t.host
    loader = a.t.host_like(names.LOADER, Kind.RANGE)
    if not len(loader):
        return
    yield Measurement("loader_batches_per_step", a.per_step(h.start[loader]))
    idle = [spans for _, spans in a.idle("data_wait")]
    waited = overlap(
        h.start[loader],
        h.end[loader],
        union(np.concatenate([s.start for s in idle]), np.concatenate([s.end for s in idle])),
    )
    if waited.sum() > 0 and len(loader) > 1:
        yield Measurement(
            "loader_first_wait_share", float(waited[0] / waited.sum()), locations=a.host_places(loader[:1])
        )
