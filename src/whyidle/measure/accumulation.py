"""When do gradients travel between ranks: in backward passes that no update follows, or only after the backward pass?

A backward pass ends where a forward pass begins, and an update (Optimizer.step) uses the gradients of all passes before
it. Ranks have to exchange them once; what they exchange in the passes before the last is exchanged again. What is
launched while the pass still computes can travel beside it; what is launched after it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.collective import by_hooks, called, gradients
from whyidle.measure.rows import Index, distinct, together
from whyidle.model.evidence import Ints, Kind
from whyidle.model.intervals import subtract
from whyidle.model.measurement import Measurement

# Of the launches of the longest forward pass: what launches less is none, but a copy, a scaled loss, a logged value.
# Judgement: the passes of one update run the same model.
FORWARD = 0.5
# Of the kernel time of a backward pass, launched before a collective: the rest is too short to hide it (judgement).
LATE = 0.9
SCATTER = 0.5  # of the collectives: the name of most of them is what is said


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """The backward passes that an update follows, in order: [start, end) ns on the host, and the update of each."""

    start: Ints
    end: Ints
    update: Index


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield how often gradients travel per update; needs a backward pass, and an update after it."""
    found = passes(a)
    if not len(found.start):
        return
    rows, pass_of = travelling(a, found)
    needless, per_update = repeated(a, found, rows, pass_of)
    yield Measurement("grad_syncs_per_update", per_update)
    yield Measurement("grad_sync_again_share", a.exposed_share(needless), locations=a.device_places(needless))
    if len(rows):
        scatter = a.t.strings_like(names.REDUCE_SCATTER)[called(a, rows)].mean() > SCATTER
        yield Measurement("grad_sync", "reduce_scatter" if scatter else "all_reduce")
    yield from after_backward(a, found)


def again(a: Analysis) -> Index:
    """Return the collectives that a later pass of the same update repeats; none without an update."""
    found = passes(a)
    if not len(found.start):
        return np.empty(0, np.intp)
    return repeated(a, found, *travelling(a, found))[0]


def after_backward(a: Analysis, found: Passes) -> Iterator[Measurement]:
    """Yield the time of gradients that travel alone since their backward pass was over when they were launched.

    Beside it, how much of the backward pass has no collective beside it: so much it could hide.
    """
    t, d, start = a.t, a.t.device, a.t.host.start
    rows = gradients(a)
    rows = rows[t.launch[rows] >= 0]
    collective = t.device_like(names.COLLECTIVE)
    kernels = np.setdiff1d(a.launched_inside(np.flatnonzero(a.host.in_backward)), collective, assume_unique=True)
    kernels = kernels[np.argsort(start[t.launch[kernels]], kind="stable")]
    launched = start[t.launch[kernels]]
    work = np.append(0, np.cumsum((d.end - d.start)[kernels]))  # before each launch
    time = start[t.launch[rows]]
    number = np.searchsorted(found.start, time, "right") - 1
    rows, time, number = rows[number >= 0], time[number >= 0], number[number >= 0]
    first, last, now = (
        work[np.searchsorted(launched, when)] for when in (found.start[number], found.end[number], time)
    )
    late = rows[np.minimum(now, last) - first >= LATE * (last - first)]
    if len(rows):
        length = d.end - d.start
        yield Measurement("grad_sync_late_part", float(length[late].sum() / max(length[rows].sum(), 1)))
    yield Measurement("grad_sync_late_share", a.exposed_share(late), locations=a.device_places(late))
    beside = a.device_time(collective)
    alone = (subtract(spans, beside[device])[0].total for device, spans in a.device_time(kernels).items())
    yield Measurement("backward_alone_share", a.share(sum(alone)))


def passes(a: Analysis) -> Passes:
    """Return the backward passes: what runs between two forward passes, up to an update."""
    t, h = a.t, a.t.host
    backward = np.flatnonzero(a.host.in_backward)
    updates = t.spans(a.host.free_of_backward(t.host_like(names.OPTIMIZER_STEP, Kind.RANGE))).start
    begins = np.sort(h.start[backward])
    forward = forward_launches(a)
    run = np.searchsorted(begins, forward)
    count = np.bincount(run, minlength=1)
    long = count[run] >= FORWARD * count.max()
    edges = forward[long & (np.append(-1, run[:-1]) != run)]
    number = np.searchsorted(edges, h.start[backward], "right")
    which = distinct(number)
    start, end = np.full(len(which), np.iinfo(np.int64).max), np.zeros(len(which), np.int64)
    place = np.searchsorted(which, number)
    np.minimum.at(start, place, h.start[backward])
    np.maximum.at(end, place, h.end[backward])
    update = np.searchsorted(updates, end - 1)
    followed = update < len(updates)
    return Passes(start[followed], end[followed], update[followed])


def forward_launches(a: Analysis) -> Ints:
    """Return when the threads that drive the devices launch kernels outside the backward pass and the optimizer."""
    t, h = a.t, a.t.host
    kernels = t.device_of_kind[Kind.KERNEL]
    calls = distinct(t.launch[np.setdiff1d(kernels, t.device_like(names.COLLECTIVE), assume_unique=True)])
    calls = calls[np.isin(h.thread[calls], [device.crew[0] for device in a.devices if device.crew])]
    around = together(np.flatnonzero(a.host.in_backward), a.host.slices["optimizer_host"])
    return np.sort(h.start[calls[t.enclosing(h.start[calls], h.thread[calls], around) < 0]])


def travelling(a: Analysis, found: Passes) -> tuple[Index, Index]:
    """Return the collectives that add up gradients, and the pass of each.

    They are launched inside a backward pass, by its hooks.
    """
    rows = by_hooks(a)
    time = a.t.host.start[a.t.launch[rows]]
    pass_of = np.searchsorted(found.start, time, "right") - 1
    inside = (pass_of >= 0) & (time < found.end[pass_of])
    return rows[inside], pass_of[inside]


def repeated(a: Analysis, found: Passes, rows: Index, pass_of: Index) -> tuple[Index, float]:
    """Return the collectives that a later pass of the same update repeats, and in how many passes per update they run.

    Passes that exchange something else each (two models, two losses) repeat nothing.
    """
    d = a.t.device
    number = np.bincount(pass_of, minlength=len(found.start))
    elements = np.bincount(pass_of, weights=d.message[rows], minlength=len(found.start))
    needless: list[Index] = []
    counts: list[int] = []
    for update in distinct(found.update):
        mine = np.flatnonzero((found.update == update) & (number > 0))
        alike = len(mine) > 1 and len(np.unique(np.stack((number[mine], elements[mine])), axis=1).T) == 1
        counts.append(len(mine) if alike else min(len(mine), 1))
        if alike:
            needless.append(rows[np.isin(pass_of, mine[:-1])])
    return together(*needless) if needless else rows[:0], float(np.mean(counts))
