"""What do copies to the device cost, and do they come from pinned memory?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.attribution import CODE
from whyidle.measure.rows import Index, among
from whyidle.model.evidence import Kind
from whyidle.model.measurement import Measurement

# Below this, latency and not bandwidth is what a copy costs (Nsight's cuda_memcpy_sync rule leaves such copies out).
SMALL_BYTES = 64 * 1024


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield time, number and bytes of host-to-device copies; whether pageable only where the recording says."""
    t, d = a.t, a.t.device
    copies = t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)
    yield Measurement("h2d_share", a.device_share(copies), locations=a.device_places(copies))
    yield Measurement("h2d_exposed_share", a.exposed_share(copies), locations=a.device_places(copies))
    back = t.device_like(names.DEVICE_TO_HOST, Kind.MEMCPY)
    back = np.setdiff1d(back, a.launched_inside(a.host.slices["checkpoint"]))  # pause.checkpoint_sync speaks of these
    yield Measurement("d2h_exposed_share", a.exposed_share(back), locations=a.device_places(back))
    known = d.bytes[copies] >= 0
    if known.all():
        small = copies[d.bytes[copies] <= SMALL_BYTES]
        if a.steps:
            in_steps = copies[a.in_steps(d.start[copies])]
            yield Measurement("h2d_bytes_per_step", float(d.bytes[in_steps].sum()) / a.steps)
            yield Measurement("h2d_small_per_step", a.per_step(d.start[small]))
        yield Measurement("h2d_small_lost_share", lost(a, small), locations=a.device_places(small))
    pageable = t.strings_like(names.PAGEABLE)[d.name[copies]]
    pinned = t.strings_like(names.PINNED)[d.name[copies]]
    if (pageable | pinned).all():
        pageable_copies = copies[pageable]
        yield Measurement("h2d_pageable_share", a.device_share(pageable_copies))
        yield Measurement(
            "h2d_pageable_exposed_share", a.exposed_share(pageable_copies), locations=a.device_places(pageable_copies)
        )


def lost(a: Analysis, copies: Index) -> float:
    """Return the idle time of gaps that end with one of these copies, and the copies beside which nothing runs."""
    before = 0
    for device in a.devices:
        g = device.gaps
        rows = among(g.next_op, copies) & device.late
        before += int((g.span.end - device.launch_start)[rows].sum())
        prep = device.pieces
        mine = rows[prep.gap] & (prep.cause == CODE["h2d_prep"])
        before += int((prep.end - prep.start)[mine].sum())
    return a.share(before) + a.exposed_share(copies)
