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
from whyidle.measure.rows import Index, Mask
from whyidle.measure.timeline import pick
from whyidle.model.evidence import Kind
from whyidle.model.intervals import overlap, union
from whyidle.model.measurement import Measurement

Lengths = NDArray[np.float64]

SHORT = 20_000  # ns: what a kernel takes to start and to end, some us, does not depend on the clock (judgement)
MATCHED = 0.5  # of the time of all kernels but collectives: where less is the same, the work differs (judgement)
FEW_KERNELS, FEW_STEPS = 20, 3  # judgement: fewer are no trend
# Times. In 14 public recordings of 3 to 6 steps the median kernel of no step differs by more than 0.7%.
SLOWER = 1.05
# Of kernel time: where so much gets faster meanwhile, the work changes and not the clock (judgement).
FASTER_PART, FASTER = 0.1, 0.98


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Kernels that every step has at the same place: their lengths by kernel and step, ns, and what they are."""

    lengths: Lengths
    row: Index  # the first of each kernel
    place: Index  # how many of its kind came before in the step


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield how much longer the same kernels take than in the fastest step; needs three steps that do the same."""
    found = same(a)
    if found is None or a.steps < FEW_STEPS:
        return
    typical = np.median(found.lengths, axis=1)
    relative = found.lengths / typical[:, None]
    speed = np.array([weighted(relative[:, step], typical, 0.5) for step in range(a.steps)])
    fastest, slowest = int(np.argmin(speed)), int(np.argmax(speed))
    ratio = speed / speed[fastest]
    changed = relative[:, slowest] / relative[:, fastest]
    if weighted(changed, typical, FASTER_PART) < FASTER:
        ratio[:] = 1.0
    busy = kernel_time(a)
    lost = float((busy * (1 - 1 / ratio)).sum())
    start, end = int(a.t.steps.start[slowest]), int(a.t.steps.end[slowest])
    yield Measurement("kernel_slowdown", float(ratio.max()))
    yield Measurement("slower_share", a.share(lost), locations=(a.t.location(start, end, "the slowest step"),))


def across(analyses: Sequence[Analysis]) -> Iterator[Measurement]:
    """Yield how much longer the same kernels take on the slowest GPU than on the others, and on which ranks they do."""
    found = [same(a) for a in analyses]
    if len(analyses) < 2 or any(one is None for one in found):
        return
    tables = [table(a, one) for a, one in zip(analyses, found, strict=True) if one is not None]
    shared = sorted(set(tables[0]).intersection(*tables[1:]))
    lengths = np.array([[of[key] for key in shared] for of in tables])
    whole = [sum(of.values()) for of in tables]
    if len(shared) < FEW_KERNELS or (lengths.sum(axis=1) < MATCHED * np.array(whole)).any():
        return
    slower = np.array([relative(lengths, rank) for rank in range(len(analyses))])
    yield Measurement("gpu_slowdown", float(max(slower.max(), 1.0)))
    yield Measurement("slow_gpus", named(np.flatnonzero(slower >= SLOWER), analyses))


def same(a: Analysis) -> Same | None:
    """Return the kernels that every step has; None where steps are too few, or differ too much."""
    if not a.steps:
        return None
    t, d = a.t, a.t.device
    collective = t.device_like(names.COLLECTIVE)
    kernels = np.setdiff1d(t.device_of_kind[Kind.KERNEL], collective, assume_unique=True)
    step = step_of(a, kernels)
    kernels, step = kernels[step >= 0], step[step >= 0]
    if not len(kernels):
        return None
    blocks = np.nan_to_num(d.blocks_per_sm[kernels], nan=-1.0)
    _, kind = np.unique(np.stack((d.name[kernels], d.stream[kernels], blocks)), axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    place = running(step * (int(kind.max()) + 1) + kind)
    length = (d.end - d.start)[kernels].astype(np.float64)
    beside = overlap(d.start[kernels], d.end[kernels], union(d.start[collective], d.end[collective]))
    order = np.lexsort((step, place, kind))
    first = np.append(True, (np.diff(kind[order]) != 0) | (np.diff(place[order]) != 0))
    begin = np.flatnonzero(first)
    begin = begin[np.diff(np.append(begin, len(order))) == a.steps]
    rows = order[begin[:, None] + np.arange(a.steps)]
    alone: Mask = (beside[rows] == 0).all(axis=1) & (np.median(length[rows], axis=1) >= SHORT)
    rows = rows[alone]
    if len(rows) < FEW_KERNELS or length[rows].sum() < MATCHED * length[beside == 0].sum():
        return None
    return Same(length[rows], kernels[rows[:, 0]], place[rows[:, 0]])


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


def kernel_time(a: Analysis) -> Lengths:
    """Return how long kernels other than collectives run in each step, ns."""
    d, t = a.t.device, a.t
    kernels = np.setdiff1d(t.device_of_kind[Kind.KERNEL], t.device_like(names.COLLECTIVE), assume_unique=True)
    step = step_of(a, kernels)
    spans = [union(d.start[mine], d.end[mine]).total for one in range(a.steps) for mine in [kernels[step == one]]]
    return np.array(spans, np.float64)


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
