"""How long do collectives run, how much of that is exposed, and how much is spent spinning for a peer?

One rank sees a collective's kernel, not its peers. What it shows: of the same collective with the same message
the fastest did not wait, so what others take longer is waiting or contention.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.model.evidence import Kind
from whyidle.model.intervals import clip, union
from whyidle.model.measurement import Measurement


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of collectives; all zero where a recording of kernels holds none."""
    t = a.t
    kernels = t.device_of_kind[Kind.KERNEL]
    if not len(kernels):
        return
    collective = t.device_like(names.COLLECTIVE)
    yield Measurement("collective_share", a.device_share(collective), locations=a.device_places(collective))
    yield Measurement("collective_exposed_share", a.exposed_share(collective))
    if not len(collective):
        yield Measurement("collective_wait_share", 0.0)
    elif a.steps > 1:
        yield Measurement("collective_wait_share", a.share(longer_than_fastest(a)))


def longer_than_fastest(a: Analysis) -> int:
    """Return the time that collectives take beyond the fastest of the same name, message and place in the step, ns.

    Collectives that wait beside each other, on streams of their own, wait at the same time.
    """
    t, d = a.t, a.t.device
    index = t.device_like(names.COLLECTIVE)
    step = np.searchsorted(t.steps.start, d.start[index], "right") - 1
    index, step = index[step >= 0], step[step >= 0]
    place = np.arange(len(index)) - np.searchsorted(step, step)
    length = d.end[index] - d.start[index]
    keys = np.stack((d.name[index].astype(np.int64), d.message[index], place), axis=1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    fastest = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(fastest, group, length)
    start, end, device = d.start[index], d.end[index] - fastest[group], d.device[index]
    return sum(
        clip(union(start[mine], end[mine]), one.low, one.high).total
        for one in a.devices
        for mine in [device == one.device]
    )
