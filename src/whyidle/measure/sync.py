"""Which blocking reads drain the GPU, and what would a host that runs ahead have filled?

A read without a gap behind it is only where the CPU waits: it costs nothing, and counts as nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, Mask, among, largest
from whyidle.model.evidence import Ints, Kind
from whyidle.model.finding import Location
from whyidle.model.measurement import Measurement

KINDS = ("data_dependent", "grad_clip", "scalar")


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield for each kind of read how often it happens and what it costs."""
    if not len(a.t.of_kind(Kind.OP)):
        return
    calls = a.host.blocking
    kind_of = dict(zip(calls.tolist(), classify(a, calls), strict=True))
    drained = [(device, *device.drained) for device in a.devices]
    for kind in KINDS:
        mine = np.array([call for call in calls.tolist() if kind_of[call] == kind], np.intp)
        reads = distinct_reads(a, mine)
        yield Measurement(f"sync_{kind}_per_step", a.per_step(a.t.host.start[reads]))
        won = 0
        worst: list[tuple[int, Location]] = []
        for device, found, gain in drained:
            rows = among(found, mine)
            won += int(gain[rows].sum())
            span = device.gaps.span
            for row in np.flatnonzero(rows)[largest(gain[rows], 3)]:
                where = a.t.location(int(span.start[row]), int(span.end[row]), site(a, int(found[row])), device.device)
                worst.append((int(gain[row]), where))
        worst.sort(key=lambda item: -item[0])
        yield Measurement(f"sync_{kind}_lost_share", a.share(won), locations=tuple(where for _, where in worst[:3]))


def classify(a: Analysis, calls: Index) -> list[str]:
    """Return for each blocking call what kind of read it belongs to; "" for other synchronisation."""
    t, h = a.t, a.t.host

    def inside(index: Index) -> Index:
        return t.enclosing(h.start[calls], h.thread[calls], index)

    dependent = inside(t.host_like(names.DATA_DEPENDENT, Kind.OP)) >= 0
    scalar = inside(t.host_like(names.SCALAR_READ, Kind.OP)) >= 0
    clip = (inside(t.host_like(names.CLIP_GRAD, Kind.PYTHON, Kind.RANGE)) >= 0) | between_backward_and_step(a, calls)
    return [
        "data_dependent" if d else "grad_clip" if s and c else "scalar" if s else ""
        for d, s, c in zip(dependent, scalar, clip, strict=True)
    ]


def between_backward_and_step(a: Analysis, calls: Index) -> Mask:
    """Return whether a call lies after the backward pass and before Optimizer.step, with a norm computed in between."""
    t, h = a.t, a.t.host
    times = h.start[calls]
    backward_end = np.sort(h.end[a.host.in_backward])
    step_start = np.sort(h.start[t.host_like(names.OPTIMIZER_STEP, Kind.RANGE)])
    norm_start = np.sort(h.start[t.host_like(names.NORM, Kind.OP)])
    if not len(backward_end) or not len(step_start) or not len(norm_start):
        return np.zeros(len(calls), np.bool_)
    last_backward = before(backward_end, times)
    next_step = step_start[np.minimum(np.searchsorted(step_start, times), len(step_start) - 1)]
    norm = before(norm_start, times)
    done: Mask = (last_backward > 0) & (before(backward_end, np.maximum(next_step, times)) == last_backward)
    return done & (norm > last_backward) & (next_step > times)


def before(ordered: Ints, times: Ints) -> Ints:
    """Return for each time the last of `ordered` before it, 0 where there is none."""
    place = np.searchsorted(ordered, times) - 1
    return np.where(place >= 0, ordered[np.maximum(place, 0)], 0)


def distinct_reads(a: Analysis, calls: Index) -> Index:
    """Return one call per read: `.item()` is a copy and a synchronisation inside one operator."""
    op = a.t.enclosing(a.t.host.start[calls], a.t.host.thread[calls], a.t.of_kind(Kind.OP))
    _, first = np.unique(op, return_index=True)
    return calls[np.sort(first)]


def site(a: Analysis, call: int) -> str:
    """Return what to look for: the Python frame around a call where frames were recorded, else its operator."""
    t, h = a.t, a.t.host
    time, thread = h.start[call : call + 1], h.thread[call : call + 1]
    for kind in (Kind.PYTHON, Kind.OP):
        around = int(t.enclosing(time, thread, t.of_kind(kind))[0])
        if around >= 0 and (kind is Kind.OP or ".py(" in t.host_name(around)):
            return t.host_name(around)
    return t.host_name(call)
