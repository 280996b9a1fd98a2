"""What do copies to the device cost, and do they come from pinned memory?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.attribution import CODE, Attribution
from whyidle.measure.flops import peaks_of
from whyidle.measure.rows import Index, among, distinct
from whyidle.model.evidence import Kind
from whyidle.model.intervals import Intervals, union
from whyidle.model.measurement import Measurement

# Below this, latency and not bandwidth is what a copy costs (Nsight's cuda_memcpy_sync rule leaves such copies out).
SMALL_BYTES = 64 * 1024
MAKING = ("python", "dispatch", "h2d_prep", "launch_latency")  # what a host does that makes a tensor and copies it


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield time, number and bytes of host-to-device copies; whether pageable only where the recording says."""
    t, d = a.t, a.t.device
    copies = t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)
    yield Measurement("h2d_share", a.device_share(copies), locations=a.device_places(copies))
    yield Measurement("h2d_exposed_share", a.exposed_share(copies), locations=a.device_places(copies))
    back = t.device_like(names.DEVICE_TO_HOST, Kind.MEMCPY)
    back = np.setdiff1d(back, a.launched_inside(a.host.slices["checkpoint"]))  # pause.checkpoint_sync speaks of these
    yield Measurement("d2h_exposed_share", a.exposed_share(back), locations=a.device_places(back))
    yield from speed(a, "h2d", copies)
    yield from speed(a, "d2h", t.device_like(names.DEVICE_TO_HOST, Kind.MEMCPY))
    few_bytes = small(a)
    if few_bytes is not None:
        if a.steps:
            in_steps = copies[a.in_steps(d.start[copies])]
            yield Measurement("h2d_bytes_per_step", float(d.bytes[in_steps].sum()) / a.steps)
            yield Measurement("h2d_small_per_step", a.per_step(d.start[few_bytes]))
        yield Measurement("h2d_small_exposed_share", a.exposed_share(few_bytes), locations=a.device_places(few_bytes))
    pageable = t.strings_like(names.PAGEABLE)[d.name[copies]]
    pinned = t.strings_like(names.PINNED)[d.name[copies]]
    if (pageable | pinned).all():
        pageable_copies = copies[pageable]
        yield Measurement("h2d_pageable_share", a.device_share(pageable_copies))
        yield Measurement(
            "h2d_pageable_exposed_share", a.exposed_share(pageable_copies), locations=a.device_places(pageable_copies)
        )


def speed(a: Analysis, way: str, copies: Index) -> Iterator[Measurement]:
    """Yield how fast the copies of one direction are that bandwidth limits."""
    d = a.t.device
    large = copies[d.bytes[copies] > SMALL_BYTES]
    took = int((d.end - d.start)[large].sum())
    if not took:
        return
    rate = float(d.bytes[large].sum()) / took * 1e9
    yield Measurement(f"{way}_bytes_per_s", rate)
    peak = peaks_of(a)
    if peak is not None:
        yield Measurement(f"{way}_link_share", rate / peak.host_bytes_per_s)


def small(a: Analysis) -> Index | None:
    """Return the small copies to the device; None where the recording does not say how much each copies."""
    size = a.t.device.bytes
    copies = a.t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)
    return copies[size[copies] <= SMALL_BYTES] if (size[copies] >= 0).all() else None


def host_device(a: Analysis) -> Index:
    """Return the copies between host and device, either way."""
    ways = (names.HOST_TO_DEVICE, names.DEVICE_TO_HOST)
    return np.sort(np.concatenate([a.t.device_like(way, Kind.MEMCPY) for way in ways]))


def not_pinned(a: Analysis) -> Index:
    """Return the copies to the device of which the recording does not say that they come from pinned memory."""
    copies = a.t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)
    return copies[~a.t.strings_like(names.PINNED)[a.t.device.name[copies]]]


def making(a: Analysis, copies: Index) -> Intervals:
    """Return when a host thread gets one of these copies ready: from its last launch until it has launched the copy."""
    h, every = a.t.host, a.t.launching
    every = every[np.lexsort((h.start[every], h.thread[every]))]
    place = np.flatnonzero(among(every, distinct(a.t.launch[copies])))
    before = every[np.maximum(place - 1, 0)]
    follows = (place > 0) & (h.thread[before] == h.thread[every[place]])
    start = np.where(follows, h.end[before], h.start[every[place]])
    return union(start, h.end[every[place]])


def prepared(device: Attribution, copies: Index) -> Intervals:
    """Return the idle time in which the host gets one of these copies ready: what ends the gap is the copy.

    All that the host did since its last launch is part of it, as far as it has no other name: Python and operators on
    the CPU make the tensor, then it is copied.
    """
    rows = among(device.gaps.next_op, copies) & device.late
    p = device.pieces
    mine = rows[p.gap] & np.isin(p.cause, [CODE[cause] for cause in MAKING])
    return union(p.start[mine], p.end[mine])
