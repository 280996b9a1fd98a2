"""Do the same kernels take longer than they could: in some steps, or on some GPU?

A kernel of the same name, as large, and at the same place in the step does the same work. Where all of them take longer
by the same factor, it is not the work: the GPU's clock is lower, or it is shared with someone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.late import named
from whyidle.measure.rows import Index, marked
from whyidle.measure.timeline import pick
from whyidle.model.evidence import Kind
from whyidle.model.finding import Location
from whyidle.model.intervals import overlap, union
from whyidle.model.measurement import Measurement

Lengths = NDArray[np.float64]

SHORT = 20_000  # ns: what a kernel takes to start and to end, some us, does not depend on the clock (judgement)
MATCHED = 0.5  # of the time of all kernels but collectives: where less is the same, the work differs (judgement)
FEW_KERNELS, FEW_STEPS = 20, 3  # judgement: fewer are no trend
# Times. In 12 public recordings of 3 to 6 steps the median kernel takes at most 1.1% longer in the slowest step than in
# the fastest, and at most 0.7% longer or shorter than in the median one.
SLOWER = 1.05
STEADY = 0.01  # of the pace: what does not count as a change of it; between those two (judgement)
BACK = 0.2  # of a slowdown: what may be taken back meanwhile (judgement)
# Of kernel time: where so much gets faster meanwhile, the work changes and not the clock (judgement).
FASTER_PART, FASTER = 0.1, 0.98


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Kernels that every step has at the same place: their lengths by kernel and step, ns, and what they are."""

    lengths: Lengths
    row: Index  # the first of each kernel
    place: Index  # how many of its kind came before in the step
    busy: Lengths  # ns of kernels other than collectives, by step


@dataclass(frozen=True, slots=True)
class Slower:
    """How much longer the kernels of a rank take in some steps."""

    times: float  # in the last steps, of the first
    lost: float  # ns, in all steps
    whole: float  # ns, that these steps take
    where: Location


def measure(analyses: Sequence[Analysis]) -> Iterator[Measurement]:
    """Yield how much longer the same kernels take than they could, in some steps and on some GPU."""
    found = [(a, kernels) for a in analyses if (kernels := same(a)) is not None]
    if not found or len(found) < len(analyses):
        return
    slow = [slower(a, kernels) for a, kernels in found if a.steps >= FEW_STEPS]
    if len(slow) == len(analyses):
        lost = sum(one.lost for one in slow) / sum(one.whole for one in slow)
        yield Measurement("kernel_slowdown", float(np.median([one.times for one in slow])))
        yield Measurement("slower_share", lost, locations=(max(slow, key=lambda one: one.lost).where,))
    if len(found) > 1:
        yield from across(found)


def slower(a: Analysis, found: Same) -> Slower:
    """Return how much longer the kernels of a rank take towards the end of the recording than in its first steps.

    A clock that falls stays low for seconds. What goes up and down from step to step is work.
    """
    pace = paces(found)
    part = max(a.steps // FEW_STEPS, 1)
    before, after = float(np.median(pace[:part])), float(np.median(pace[-part:]))
    changed = np.median(found.lengths[:, -part:], axis=1) / np.median(found.lengths[:, :part], axis=1)
    change = np.diff(pace)
    falls = -change[change < -STEADY].sum()
    work = falls > BACK * (after - before) or weighted(changed, np.median(found.lengths, axis=1), FASTER_PART) < FASTER
    ratio = np.ones(len(pace)) if work else np.maximum(pace / before, 1.0)
    slowest = int(np.argmax(pace))
    where = a.t.location(int(a.t.steps.start[slowest]), int(a.t.steps.end[slowest]), "the slowest step")
    # what the host launched in the window may run after it
    whole = max(a.device_window, float(found.busy.sum()))
    return Slower(1.0 if work else max(after / before, 1.0), float((found.busy * (1 - 1 / ratio)).sum()), whole, where)


def paces(found: Same) -> Lengths:
    """Return how long the kernels of each step take, of those of the median step: the median kernel, by time."""
    typical = np.median(found.lengths, axis=1)
    return np.array([weighted(lengths / typical, typical, 0.5) for lengths in found.lengths.T])


def across(found: Sequence[tuple[Analysis, Same]]) -> Iterator[Measurement]:
    """Yield how much longer the same kernels take on the slowest GPU than on the others, and on which ranks they do.

    A rank of which the steps differ by half as much among themselves is none: it is work that differs.
    """
    tables = [table(a, kernels) for a, kernels in found]
    shared = sorted(set(tables[0]).intersection(*tables[1:]))
    lengths = np.array([[of[key] for key in shared] for of in tables])
    whole = np.array([sum(of.values()) for of in tables])
    if len(shared) < FEW_KERNELS or (lengths.sum(axis=1) < MATCHED * whole).any():
        return
    times = np.array([relative(lengths, rank) for rank in range(len(found))])
    vary = np.array([np.ptp(paces(kernels)) for _, kernels in found])
    slow = (times >= SLOWER) & (vary < (times - 1) / 2)
    yield Measurement("gpu_slowdown", float(max(times[slow].max(initial=1.0), 1.0)))
    yield Measurement("slow_gpus", named(np.flatnonzero(slow), [a for a, _ in found]))


def same(a: Analysis) -> Same | None:
    """Return the kernels that every step has; None where steps are too few, or differ too much."""
    t, d = a.t, a.t.device
    if not a.steps or len(a.devices) > 1:
        return None
    collective = t.device_like(names.COLLECTIVE)
    kernels = np.setdiff1d(t.device_of_kind[Kind.KERNEL], collective, assume_unique=True)
    step = step_of(a, kernels)
    kernels, step = kernels[step >= 0], step[step >= 0]
    length = (d.end - d.start)[kernels].astype(np.float64)
    beside = overlap(d.start[kernels], d.end[kernels], union(d.start[collective], d.end[collective])) > 0
    together = union(d.start[kernels], d.end[kernels]).total / max(length.sum(), 1.0)  # kernels may run beside kernels
    busy = np.bincount(step, weights=length, minlength=a.steps) * together
    whole = length[~beside].sum()
    long = marked(d.name[kernels[length >= SHORT]], len(t.trace.strings))[d.name[kernels]]
    kernels, step, length, beside = kernels[long], step[long], length[long], beside[long]
    kind = kinds(a, kernels)
    place = running(step * (int(kind.max(initial=0)) + 1) + kind)
    order = np.lexsort((step, place, kind))
    first = np.append(True, (np.diff(kind[order]) != 0) | (np.diff(place[order]) != 0))[: len(order)]
    begin = np.flatnonzero(first)
    begin = begin[np.diff(np.append(begin, len(order))) == a.steps]
    rows = order[begin[:, None] + np.arange(a.steps)]
    rows = rows[~beside[rows].any(axis=1) & (np.median(length[rows], axis=1) >= SHORT)]
    if len(rows) < FEW_KERNELS or length[rows].sum() < MATCHED * whole:
        return None
    return Same(length[rows], kernels[rows[:, 0]], place[rows[:, 0]], np.asarray(busy))


def kinds(a: Analysis, kernels: Index) -> Index:
    """Return a number for each kernel, of which those of the same name and as large have the same."""
    d = a.t.device
    size = np.nan_to_num(d.blocks_per_sm[kernels], nan=-1.0).view(np.uint32).astype(np.int64)
    _, kind = np.unique(d.name[kernels].astype(np.int64) << 32 | size, return_inverse=True)
    return np.asarray(kind.reshape(-1), np.intp)


def step_of(a: Analysis, kernels: Index) -> Index:
    """Return the step that launches each of these kernels, -1 for none."""
    t, steps = a.t, a.t.steps
    time = pick(t.host.start, t.launch[kernels], t.device.start[kernels])
    step = np.searchsorted(steps.start, time, "right") - 1
    return np.where((step >= 0) & (time < steps.end[np.maximum(step, 0)]), step, -1)


def running(group: Index) -> Index:
    """Return for each element how many of its group come before it."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    place = np.empty(len(group), np.intp)
    place[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return place


def weighted(values: Lengths, weights: Lengths, part: float) -> float:
    """Return the value below which this part of the weights lies."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, part * total[-1])])


def table(a: Analysis, found: Same) -> dict[tuple[str, float, int], float]:
    """Return the length of each kernel in the median step, ns, by what is the same on other ranks."""
    d, strings = a.t.device, a.t.trace.strings
    blocks = np.nan_to_num(d.blocks_per_sm[found.row], nan=-1.0).tolist()
    what = zip(d.name[found.row].tolist(), blocks, found.place.tolist(), strict=True)
    lengths = np.median(found.lengths, axis=1).tolist()
    return {(strings[name], size, place): length for (name, size, place), length in zip(what, lengths, strict=True)}


def relative(lengths: Lengths, rank: int) -> float:
    """Return how much longer kernels take on a rank than on the median of the others."""
    others = np.median(np.delete(lengths, rank, axis=0), axis=0)
    return weighted(lengths[rank] / others, others, 0.5)
