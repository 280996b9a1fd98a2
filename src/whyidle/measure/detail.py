"""What the numbers come from: top kernels and operators, copies by kind, kernel sizes. What `key_averages()` shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.flops import BOUNDS, Limits, Worked, peaks_of
from whyidle.measure.rows import Index, Mask, distinct
from whyidle.measure.timeline import parents
from whyidle.model.detail import Bucket, Copies, Detail, Roofline, TopItem
from whyidle.model.evidence import Ints, Kind

LISTED = 15
# ns; a launch costs about 5 us of host time, so kernels in the first two buckets cannot hide their successor's
BUCKETS = (0, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
DIRECTIONS = (
    ("HtoD", names.HOST_TO_DEVICE),
    ("DtoH", names.DEVICE_TO_HOST),
    ("DtoD", names.DEVICE_TO_DEVICE),
    ("PtoP", names.PEER_TO_PEER),
)


def detail(analyses: Sequence[Analysis]) -> Detail:
    """Return the detail of all ranks together."""
    return Detail(
        kernels=top([kernel_times(a) for a in analyses]),
        operators=top([operator_times(a) for a in analyses]),
        copies=tuple(copies(analyses)),
        kernel_sizes=sizes(analyses),
        rooflines=rooflines(analyses),
    )


Times = dict[str, tuple[int, int]]  # name -> calls, ns


def grouped(a: Analysis, codes: Ints, time: Ints) -> Times:
    """Return calls and time by name."""
    if not len(codes):
        return {}
    calls = np.bincount(codes)
    total = np.bincount(codes, weights=time)
    return {a.t.trace.strings[code]: (int(calls[code]), int(total[code])) for code in np.flatnonzero(calls)}


def kernel_times(a: Analysis) -> Times:
    d = a.t.device
    return grouped(a, d.name.astype(np.int64), d.end - d.start)


def operator_times(a: Analysis) -> Times:
    """Return operators by self time on the host."""
    h = a.t.host
    ops = a.t.of_kind(Kind.OP)
    length = h.end[ops] - h.start[ops]
    own = length.copy()
    for thread in distinct(h.thread[ops]):
        mine = np.flatnonzero(h.thread[ops] == thread)
        parent = parents(h.start[ops[mine]], h.end[ops[mine]])
        child = parent >= 0
        own[mine] -= np.bincount(parent[child], weights=length[mine][child], minlength=len(mine)).astype(np.int64)
    return grouped(a, h.name[ops].astype(np.int64), np.maximum(own, 0))


def top(parts: list[Times]) -> tuple[TopItem, ...]:
    """Return the names that take the most time, of all parts together."""
    calls: dict[str, int] = {}
    time: dict[str, int] = {}
    for part in parts:
        for name, (count, total) in part.items():
            calls[name] = calls.get(name, 0) + count
            time[name] = time.get(name, 0) + total
    whole = max(sum(time.values()), 1)
    first = sorted(time, key=lambda name: (-time[name], name))[:LISTED]
    return tuple(TopItem(name, calls[name], time[name] / 1e9, time[name] / whole) for name in first)


def copies(analyses: Sequence[Analysis]) -> list[Copies]:
    """Return copies by direction and kind of host memory; AMD recordings do not say which memory."""
    rows: list[Copies] = []
    window = max(sum(a.device_window for a in analyses), 1)
    for kind, pattern in DIRECTIONS:
        for pinned in (False, True, None):
            chosen = [(a, copies_of(a, pattern, pinned)) for a in analyses]
            count = sum(len(index) for _, index in chosen)
            if not count:
                continue
            time = sum(int((a.t.device.end - a.t.device.start)[index].sum()) for a, index in chosen)
            sizes_ = np.concatenate([a.t.device.bytes[index] for a, index in chosen])
            total = int(sizes_.sum()) if (sizes_ >= 0).all() else None
            rate = total / time * 1e9 if total is not None and time else None
            rows.append(Copies(kind, pinned, count, total, time / 1e9, time / window, rate))
    return rows


def copies_of(a: Analysis, pattern: re.Pattern[str], pinned: bool | None) -> Index:
    """Return the copies of one direction whose host memory is pinned, pageable, or not told."""
    t = a.t
    index = t.device_like(pattern, Kind.MEMCPY)
    name = t.device.name[index]
    is_pageable, is_pinned = t.strings_like(names.PAGEABLE)[name], t.strings_like(names.PINNED)[name]
    wanted: dict[bool | None, Mask] = {
        True: is_pinned & ~is_pageable,
        False: is_pageable,
        None: ~is_pinned & ~is_pageable,
    }
    return index[wanted[pinned]]


def sizes(analyses: Sequence[Analysis]) -> tuple[Bucket, ...]:
    """Return how many kernels are how long."""
    length = np.concatenate(
        [(a.t.device.end - a.t.device.start)[a.t.device.kind == Kind.KERNEL] for a in analyses]
        or [np.empty(0, np.int64)]
    )
    place = np.searchsorted(BUCKETS, length, "right") - 1
    count = np.bincount(place, minlength=len(BUCKETS))
    time = np.bincount(place, weights=length, minlength=len(BUCKETS))
    above = [edge / 1e9 for edge in BUCKETS]
    return tuple(
        Bucket(low, high, int(n), float(t) / 1e9)
        for low, high, n, t in zip(above, [*above[1:], None], count, time, strict=True)
    )


def rooflines(analyses: Sequence[Analysis]) -> tuple[Roofline, ...]:
    """Return operators of known sizes next to what the GPU could do, those with most GPU time first."""
    parts: dict[tuple[str, str], list[tuple[int, int]]] = {}  # by operator and number: (trace, call)
    known: list[tuple[Worked, Limits]] = []
    for a in analyses:
        peak = peaks_of(a)
        if peak is None or not (a.t.host.shapes >= 0).any():
            continue
        worked = Worked.of_trace(a)
        limits = Limits.of(worked, peak)
        for row in np.flatnonzero(limits.known).tolist():
            number = worked.number[row] if worked.works[row].flop else None
            key = a.t.host_name(int(worked.call[row])), number or ""
            parts.setdefault(key, []).append((len(known), row))
        known.append((worked, limits))
    listed = [roofline(operator, number, rows, known) for (operator, number), rows in parts.items()]
    return tuple(sorted(listed, key=lambda one: (-one.total_s, one.operator, one.number))[:LISTED])


def roofline(
    operator: str, number: str, rows: Sequence[tuple[int, int]], known: Sequence[tuple[Worked, Limits]]
) -> Roofline:
    """Return the sum of these calls; what limits them is what limits most of their time."""
    took = least = flop = moved = 0.0
    by_bound = dict.fromkeys(BOUNDS, 0.0)
    for trace in {trace for trace, _ in rows}:
        worked, limits = known[trace]
        mine = np.array([row for place, row in rows if place == trace], np.intp)
        took += float(limits.took[mine].sum())
        least += float(limits.least[mine].sum())
        flop += sum(worked.works[row].flop for row in mine.tolist())
        moved += sum(worked.works[row].bytes or 0.0 for row in mine.tolist())
        for bound in BOUNDS:
            by_bound[bound] += float(limits.took[mine][limits.is_(bound)[mine]].sum())
    most = max(BOUNDS, key=lambda bound: by_bound[bound])
    return Roofline(operator, number, len(rows), took / 1e9, flop, moved, least / took, most)
