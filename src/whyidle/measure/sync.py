"""Where does the host stand and wait for the GPU, and what would it have filled had it run ahead instead?

A wait costs nothing by itself: the GPU works meanwhile. It costs what comes after it, when the host starts again
with an empty queue. Without the wait everything after it would be launched earlier by the time that the host stood,
so of the idle time for which the host is late, up to the next wait, at most that much goes away. A wait without idle
time behind it is only where the CPU waits, and counts as nothing. Idle time in a loader, or in a pause that has a rule
of its own, is not counted, though it may have begun late because of a wait: it is the loader's, or the pause's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names, transfer
from whyidle.measure.analysis import PLACES, Analysis
from whyidle.measure.attribution import Attribution, merged
from whyidle.measure.rows import Index, Mask, among, largest, together
from whyidle.model.evidence import Ints, Kind
from whyidle.model.finding import Location
from whyidle.model.intervals import NOTHING, Intervals, covered_before, intersect, overlap, subtract, union
from whyidle.model.measurement import Measurement

MEASURED = ("scalar", "readback", "data_dependent", "grad_clip", "upload", "framework")
SMALL = "small_upload"  # of these transfer.h2d_in_step speaks, together with what the host does before them
HOST_WORK = ("sync_return", "h2d_prep", "optimizer_host", "autograd_host", "dispatch", "python")
# what a host does that rules of its own speak of, whether it came to it early or late
NAMED = ("data_wait", "checkpoint", "evaluation", "logging", "allocator", "gc", "compile")
SHORTEST = 5_000  # ns: below a launch's length a call did not wait; the median launch takes 1-16 us
NO_OPERATOR = -1
ONE_VALUE = 16  # bytes
NEVER = np.iinfo(np.int64).max
LONG_LAUNCH, FULL = 30_000, 5  # ns, times the median: 5-8 us on a free queue, 190 us on a full one


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Times at which the host may stand, in order of start. The calls of one operator are one: copy, then wait."""

    call: Index  # the first call of each
    start: Ints  # ns
    end: Ints  # ns
    kind: NDArray[np.str_]
    calls: Index  # all calls,
    wait_of: Index  # and the wait that each belongs to


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield for each kind of wait how often it happens and what it costs."""
    if not len(a.t.of_kind(Kind.OP)) and not len(a.t.of_kind(Kind.RUNTIME)):
        return
    waits = find(a)
    won = all_gains(a, waits)
    busy = sum(device.busy.total for device in a.devices)
    if busy:
        stands = a.t.spans(np.concatenate((waits.calls, held_up(a))))
        limited = sum(gpu_limited(device, stands) for device in a.devices)
        yield Measurement("gpu_limited_share", limited / busy)
    spoken = np.isin(waits.kind, MEASURED)
    pairs = list(zip(a.devices, won, strict=True))
    claimed = sum(host_work(device, filled(device, waits, np.where(spoken, mine, 0))) for device, mine in pairs)
    yield Measurement("sync_host_share", a.share(claimed))
    yield from small_copies(a, waits, pairs)
    total = np.sum(won, axis=0) if won else np.zeros(len(waits.call), np.int64)
    for kind in MEASURED:
        mine: Mask = waits.kind == kind
        if a.steps:
            yield Measurement(f"sync_{kind}_per_step", a.per_step(a.t.host.start[waits.call[mine]]))
        places = tuple(place(a, waits, int(row)) for row in largest(np.where(mine, total, 0), PLACES) if mine[row])
        yield Measurement(f"sync_{kind}_lost_share", a.share(float(total[mine].sum())), locations=places)


def small_copies(a: Analysis, waits: Waits, pairs: Sequence[tuple[Attribution, Ints]]) -> Iterator[Measurement]:
    """Yield the idle time before small copies to the device and behind those that the host waited for.

    What a wait of another kind is said to cost, is not counted again.
    """
    copies = transfer.small(a)
    if copies is None:
        return
    small, lost = waits.kind == SMALL, 0
    for device, won in pairs:
        behind = filled(device, waits, np.where(small, won, 0))
        others = filled(device, waits, np.where(np.isin(waits.kind, MEASURED), won, 0))
        before = subtract(transfer.prepared(device, copies), others)[0]
        lost += merged([intersect(behind, of_host(device))[0], before]).total
    yield Measurement("h2d_small_lost_share", a.share(lost), locations=a.device_places(copies))


def gpu_limited(device: Attribution, stands: Intervals) -> float:
    """Return the busy time of a device that the step waits for, ns; `stands` is when the host stands.

    Busy time that ends in a gap in which the host was late is not: shorter kernels would only widen the gap. Unless
    the host had stood and waited for the GPU meanwhile: then it was late because the GPU was, by as long as it stood.
    Launches stand too while the queue is full. Of a stretch in which the host stood for half the time all counts,
    since fixes rarely remove more than half of it.
    """
    gaps = device.gaps.span
    late = np.flatnonzero(device.late & (device.gaps.next_op >= 0))  # what follows the last gap is not known
    edges = np.concatenate(([device.low], gaps.start[late], [device.high]))
    busy = np.diff(covered_before(edges, device.busy))
    stood, _, _ = intersect(stands, device.busy)
    waited = np.diff(covered_before(edges, stood))
    counts = np.minimum(busy, 2 * waited)
    counts[-1] = busy[-1]
    return float(counts.sum())


def held_up(a: Analysis) -> Index:
    """Return the launches that the host stood in because the queue was full.

    They take far longer than the median launch, and what they launch starts later still: much is queued before it.
    """
    t, h = a.t, a.t.host
    calls = t.launching
    took = h.end[calls] - h.start[calls]
    slow = calls[took > max(LONG_LAUNCH, FULL * float(np.median(took)))] if len(calls) else calls
    rows = np.flatnonzero(among(t.launch, slow))
    first = np.full(len(h), NEVER)
    np.minimum.at(first, t.launch[rows], t.device.start[rows])
    return slow[first[slow] > 2 * h.end[slow] - h.start[slow]]


def find(a: Analysis) -> Waits:
    """Return the waits of the threads that drive the devices; what others wait for holds up nobody."""
    t, h = a.t, a.t.host
    calls = a.host.waiting
    calls = calls[np.isin(h.thread[calls], [thread for device in a.devices for thread in device.crew])]
    operator = t.enclosing(h.start[calls], h.thread[calls], t.of_kind(Kind.OP))
    key = np.where(operator >= 0, operator, len(h) + of_copies(a, calls))
    _, first, wait_of = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    wait_of = rank[wait_of.reshape(-1)]
    end = np.zeros(len(order), np.int64)
    np.maximum.at(end, wait_of, h.end[calls])
    call, kind = calls[first[order]], kinds(a, calls, wait_of, operator[first[order]])
    return Waits(call, h.start[call], end, kind, calls, wait_of)


def of_copies(a: Analysis, calls: Index) -> Index:
    """Return for each call the copy that it waits for, if it comes right behind one on its thread, or else itself."""
    h, every = a.t.host, a.t.of_kind(Kind.RUNTIME)
    every = every[np.lexsort((h.start[every], h.thread[every]))]
    place = np.full(len(h), 0, np.intp)
    place[every] = np.arange(len(every))
    before = every[np.maximum(place[calls] - 1, 0)]
    copies = np.concatenate(a.host.copies)
    behind = among(before, copies) & ~among(calls, copies) & (h.thread[before] == h.thread[calls])
    return np.where(behind, before, calls)


def kinds(a: Analysis, calls: Index, wait_of: Index, operator: Index) -> NDArray[np.str_]:
    """Return the kind of each wait; "" for one that no rule speaks of. `operator` is the innermost around it."""
    t, h = a.t, a.t.host
    count = len(operator)
    head = np.full(count, -1, np.intp)
    head[wait_of[::-1]] = calls[::-1]

    def inside(index: Index) -> Mask:
        return t.enclosing(h.start[head], h.thread[head], index) >= 0

    def holds(some: Index) -> Mask:
        mask = np.zeros(count, np.bool_)
        mask[wait_of[among(calls, some)]] = True
        return mask

    up, down = a.host.copies
    upload = holds(up)
    scalar = inside(t.host_like(names.SCALAR_READ, Kind.OP))
    if not a.host.operators_recorded:  # one value is at most complex128
        scalar |= holds(down[among(down, t.launch[t.device.bytes == np.clip(t.device.bytes, 1, ONE_VALUE)])])
    read = (scalar | holds(down)) & ~upload
    clip = inside(t.host_like(names.CLIP_GRAD, Kind.PYTHON, Kind.RANGE)) | between_backward_and_step(a, h.start[head])
    kind = np.full(count, "", "<U14")
    kind[operator == NO_OPERATOR] = "framework"
    kind[upload & holds(large_uploads(a))] = "upload"
    kind[upload & ~holds(large_uploads(a))] = SMALL
    kind[read] = "readback"
    kind[read & scalar] = "scalar"
    kind[read & clip] = "grad_clip"
    kind[inside(t.host_like(names.DATA_DEPENDENT, Kind.OP))] = "data_dependent"
    # what saving, evaluating or freeing memory waits for is part of them
    kind[inside(together(*(a.host.slices[name] for name in ("checkpoint", "evaluation", "allocator"))))] = ""
    return kind


def large_uploads(a: Analysis) -> Index:
    """Return the calls that copy more than a few small tensors to the device; of the small ones transfer.py speaks."""
    t = a.t
    copies = t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)
    calls = t.launch[copies[t.device.bytes[copies] > transfer.SMALL_BYTES]]
    return calls[calls >= 0]


def calls_of(waits: Waits, which: Mask) -> Index:
    """Return all calls of these waits."""
    return np.sort(waits.calls[which[waits.wait_of]])


def of_batches(a: Analysis, waits: Waits) -> Mask:
    """Return which waits are for uploads of batches.

    Those are large, and with them come small ones, labels and lengths: between them nothing else is launched. Where
    the recording does not say how much each copies, all are taken for batches.
    """
    h, every = a.t.host, a.t.launching
    every = every[np.lexsort((h.start[every], h.thread[every]))]
    up = among(every, a.host.copies[0])
    apart = ~(up[1:] & up[:-1] & (h.thread[every[1:]] == h.thread[every[:-1]]))
    run = np.cumsum(np.append(True, apart))[: len(every)]
    large = a.host.copies[0] if transfer.small(a) is None else large_uploads(a)
    batch = every[up & np.isin(run, run[among(every, large)])]
    whole = np.zeros(len(waits.call), np.bool_)
    whole[waits.wait_of[among(waits.calls, batch)]] = True
    return whole & np.isin(waits.kind, ("upload", SMALL))


def all_gains(a: Analysis, waits: Waits) -> list[Ints]:
    """Return for each device what each wait costs, ns: no step gets shorter than its busiest device works."""
    least = min((device.idle for device in a.devices), default=0)
    return [at_most(least, gains(a, device, waits)) for device in a.devices]


def gains(a: Analysis, device: Attribution, waits: Waits) -> Ints:
    """Return for each wait how much idle time of this device would go away without the waits of its kind, ns."""
    h, late = a.t.host, fillable(device)
    stood = np.zeros(len(waits.call), np.int64)
    np.add.at(stood, waits.wait_of, overlap(h.start[waits.calls], h.end[waits.calls], device.busy))
    rows = np.flatnonzero(stood >= SHORTEST)
    start = h.start[waits.call[rows]]
    behind = np.diff(covered_before(np.append(start, max(device.high, int(start.max(initial=0)))), late))
    won = np.zeros(len(waits.call), np.int64)
    lead, kind = 0, ""
    for row, idle in zip(rows.tolist(), behind.tolist(), strict=True):
        if waits.kind[row] != kind:  # a wait of another kind stays, and takes up the lead
            lead, kind = 0, str(waits.kind[row])
        lead += int(stood[row])
        won[row] = min(lead, idle)
        lead -= int(won[row])
    return won


def fillable(device: Attribution) -> Intervals:
    """Return the idle time for which the host was late, and in no loader and no pause that has a name."""
    return subtract(device.late_idle, merged([device.pieces.of(cause) for cause in NAMED]))[0]


def at_most(limit: int, won: Ints) -> Ints:
    """Return gains that are no more than this together."""
    total = int(won.sum())
    return won if total <= limit else (won * (limit / total)).astype(np.int64)


def filled(device: Attribution, waits: Waits, won: Ints) -> Intervals:
    """Return the idle time that would go away without these waits.

    Without a wait the host would be earlier by as long as it stood: the first idle time behind it goes away first.
    """
    late, rows = fillable(device), np.flatnonzero(won)
    if not len(rows):
        return NOTHING
    before = covered_before(waits.start[rows], late)
    until = np.concatenate(([0], np.cumsum(late.lengths)))
    place = np.clip(np.searchsorted(until, before + won[rows]) - 1, 0, len(late) - 1)
    end = late.start[place] + before + won[rows] - until[place]
    return intersect(union(waits.start[rows], end), late)[0]


def of_host(device: Attribution) -> Intervals:
    """Return the idle time that the host spends launching and in Python."""
    return merged([device.pieces.of(cause) for cause in HOST_WORK])


def host_work(device: Attribution, idle: Intervals) -> int:
    """Return how much of this idle time the host spends launching and in Python, ns: other rules see it there."""
    return intersect(idle, of_host(device))[0].total


def between_backward_and_step(a: Analysis, times: Ints) -> Mask:
    """Return which times lie after the backward pass and before Optimizer.step, with a norm computed in between."""
    t, h = a.t, a.t.host
    backward_end = np.sort(h.end[a.host.in_backward])
    step_start = np.sort(h.start[t.host_like(names.OPTIMIZER_STEP, Kind.RANGE)])
    norm_start = np.sort(h.start[t.host_like(names.NORM, Kind.OP)])
    if not len(backward_end) or not len(step_start) or not len(norm_start):
        return np.zeros(len(times), np.bool_)
    last_backward = before(backward_end, times)
    next_step = step_start[np.minimum(np.searchsorted(step_start, times), len(step_start) - 1)]
    norm = before(norm_start, times)
    done: Mask = (last_backward > 0) & (before(backward_end, np.maximum(next_step, times)) == last_backward)
    return done & (norm > last_backward) & (next_step > times)


def before(ordered: Ints, times: Ints) -> Ints:
    """Return for each time the last of `ordered` before it, 0 where there is none."""
    place = np.searchsorted(ordered, times) - 1
    return np.where(place >= 0, ordered[np.maximum(place, 0)], 0)


def place(a: Analysis, waits: Waits, row: int) -> Location:
    """Return where a wait is: its Python frame where frames were recorded, else its operator, else its call."""
    t, h = a.t, a.t.host
    call = int(waits.call[row])
    time, thread = h.start[call : call + 1], h.thread[call : call + 1]
    name = t.host_name(call)
    for kind in (Kind.PYTHON, Kind.OP):
        around = int(t.enclosing(time, thread, t.of_kind(kind))[0])
        if around >= 0 and (kind is Kind.OP or ".py(" in t.host_name(around)):
            name = t.host_name(around)
            break
    return t.location(int(h.start[call]), int(waits.end[row]), name)
