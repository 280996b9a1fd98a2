"""How long do collectives run, how much of that is exposed, and how much is spent spinning for a peer?

One rank sees a collective's kernel, not its peers. What it shows is a lower bound: of the same collective with the
same message the fastest waited least, so what others take longer is waiting or contention. Ranks that were recorded
together show all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index
from whyidle.model.evidence import Kind
from whyidle.model.intervals import clip, union
from whyidle.model.measurement import Measurement

# Of a rank's collectives, those with partners, or the ranks do not belong together. Judgement: ranks start and stop
# recording at different moments, which leaves a few at the edges alone.
MATCHED = 0.9


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


def across(analyses: Sequence[Analysis]) -> list[float] | None:
    """Return for each rank the share of its window in which its collectives wait for a peer; None if they do not match.

    A collective ends on all ranks at once, so no clocks need to agree: of one collective the rank that entered last
    has the shortest kernel, and what the others take longer they waited.
    """
    ranks = [occurrences(a) for a in analyses]
    keys = set(ranks[0]).intersection(*ranks[1:])
    keys = {key for key in keys if len({len(rank[key]) for rank in ranks}) == 1}
    if not keys:
        return None
    shares: list[float] = []
    for a, rank in zip(analyses, ranks, strict=True):
        d, waited = a.t.device, []
        matched = np.concatenate([rank[key] for key in keys])
        if len(matched) < MATCHED * sum(map(len, rank.values())):
            return None
        for key in keys:
            length = np.stack(
                [
                    (other.t.device.end - other.t.device.start)[rows[key]]
                    for other, rows in zip(analyses, ranks, strict=True)
                ]
            )
            start, end = d.start[rank[key]], d.end[rank[key]] - length.min(axis=0)
            waited.append(union(start, end))
        whole = union(np.concatenate([w.start for w in waited]), np.concatenate([w.end for w in waited]))
        shares.append(a.share(sum(clip(whole, one.low, one.high).total for one in a.devices)))
    return shares


def occurrences(a: Analysis) -> dict[tuple[str, int], Index]:
    """Return the collectives of a rank by name and message, each in order of start."""
    d, strings = a.t.device, a.t.trace.strings
    found: dict[tuple[str, int], list[int]] = {}
    for row in a.t.device_like(names.COLLECTIVE).tolist():
        found.setdefault((strings[d.name[row]], int(d.message[row])), []).append(row)
    return {key: np.array(rows, np.intp) for key, rows in found.items()}


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
