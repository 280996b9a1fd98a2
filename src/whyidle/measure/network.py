"""How fast do large collectives move their bytes, of what the links of these GPUs reach?

What a collective takes includes waiting for the last rank to come. All leave at once, so the last rank's kernel is the
shortest: what it takes is the transfer. One rank alone shows a bound: of many the fastest has waited least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.collective import alone
from whyidle.measure.rows import Index, distinct, together
from whyidle.model.evidence import Ints
from whyidle.model.intervals import clip, union
from whyidle.model.links import MIB, START_BETWEEN, START_INSIDE, expected_s, links
from whyidle.model.measurement import Measurement

# Bytes. Below this a collective's latency counts for more than its bytes: DDP's first bucket has 1 MiB, the others 25.
LARGE = 16 * MIB
FEW = 5  # judgement: of so few collectives each may have waited for a rank


@dataclass(frozen=True, slots=True)
class Large:
    """The large collectives of one process group, as one rank recorded them."""

    a: Analysis
    rows: Index
    members: int
    payload: NDArray[np.float64]  # bytes of each
    sends: NDArray[np.float64]  # of them what each rank has to send, as a part

    @property
    def took(self) -> NDArray[np.float64]:
        """Return how long each took, s."""
        d = self.a.t.device
        return np.asarray((d.end[self.rows] - d.start[self.rows]) / 1e9)


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast the large collectives of one process group are."""

    ranks: Sequence[Large]
    where: str
    ratio: float  # of what the links reach, of the fastest
    bus: float  # bytes/s, of the fastest


def measure(analyses: Sequence[Analysis]) -> Iterator[Measurement]:
    """Yield the speed of the process group that is slowest for what its links carry; nothing without large messages."""
    if not any(len(a.t.device_like(names.COLLECTIVE)) for a in analyses) and analyses:
        yield Measurement("link_exposed_share", 0.0)
    groups: dict[str, list[Large]] = {}
    for a in analyses:
        for group, large in larges(a):
            groups.setdefault(group, []).append(large)
    judged = [speed for group, ranks in groups.items() for speed in speeds(group, ranks)]
    if not judged:
        return
    slowest = min(judged, key=lambda speed: speed.ratio)
    yield Measurement("link_speed_share", min(slowest.ratio, 1.0))
    yield Measurement("busbw_bytes_per_s", slowest.bus)
    yield Measurement("link", slowest.where)
    least = shortest(slowest.ranks)
    exposed = sum(transfer(large, least) for large in slowest.ranks)
    first = slowest.ranks[0]
    places = first.a.device_places(first.rows)
    yield Measurement("link_exposed_share", exposed / sum(a.device_window for a in analyses), locations=places)


def larges(a: Analysis) -> Iterator[tuple[str, Large]]:
    """Yield the large all-reduces, all-gathers and reduce-scatters of each process group."""
    d, like = a.t.device, a.t.strings_like
    rows = a.t.device_like(names.COLLECTIVE)
    rows = rows[(d.collective[rows] >= 0) & (d.group[rows] >= 0) & (d.members[rows] > 1)]
    twice = like(names.ALL_REDUCE_CALL)[d.collective[rows]]
    known = twice | like(names.GATHER_CALL)[d.collective[rows]]
    keep = known & (d.payload[rows] >= LARGE) & (d.end[rows] > d.start[rows])
    rows, twice = rows[keep], twice[keep]
    for code in distinct(d.group[rows]):
        mine = d.group[rows] == code
        members = int(d.members[rows[mine][0]])
        sends = np.where(twice[mine], 2.0, 1.0) * (members - 1) / members
        yield a.t.trace.strings[code], Large(a, rows[mine], members, d.payload[rows[mine]].astype(np.float64), sends)


def large_collectives(a: Analysis) -> Index:
    """Return the large collectives of all process groups."""
    return together(a.t.device_like(names.COLLECTIVE)[:0], *(found.rows for _, found in larges(a)))


def speeds(group: str, ranks: Sequence[Large]) -> Iterator[Speed]:
    """Yield how fast a group is; nothing where its links are not known, or of too few collectives."""
    here = next((found for gpu in ranks[0].a.t.trace.gpus if (found := links(gpu.name))), None)
    if here is None or min(len(large.rows) for large in ranks) < FEW:
        return
    inside = on_one_node(group, ranks)
    link, begin = (here.inside, START_INSIDE) if inside else (min(here.between, here.inside), START_BETWEEN)
    if link:
        ratio = max(float((expected_s(large.payload, large.sends, link, begin) / large.took).max()) for large in ranks)
        bus = max(float((large.payload * large.sends / large.took).max()) for large in ranks)
        yield Speed(ranks, "inside a node" if inside else "between nodes", ratio, bus)


def on_one_node(group: str, recorded: Sequence[Large]) -> bool:
    """Say whether the ranks of a group share a node, as far as those that were recorded show."""
    ranks = {int(rank) for found in names.GROUP_RANKS.findall(group) for rank in found.split(",")}
    beside = [neighbours(large) for large in recorded]
    firsts = {min(known) for known in beside}
    return len(ranks) == recorded[0].members and len(firsts) == 1 and ranks <= set().union(*beside)


def neighbours(large: Large) -> set[int]:
    """Return the ranks that share this one's node, as far as it shows; itself among them.

    Ranks are dealt out to nodes in rows, each to the GPU of its place in the row, as torchrun does: a rank on GPU 3
    has three others before it. A process may see all GPUs of its node or its own only, which is then GPU 0 and shows
    nothing. Where it sees several, a job of as many ranks fills the node, and a rank on the GPU of its place is not
    alone.
    """
    trace, device = large.a.t.trace, large.a.devices[0].device
    rank, node = trace.rank or 0, len(trace.gpus)
    first = max(rank - device, 0)
    full = node > 1 and (trace.world_size == node or (device > 0 and rank % node == device))
    return set(range(first, max(first + node if full else 0, rank + 1)))


def shortest(ranks: Sequence[Large]) -> dict[tuple[int, str], int]:
    """Return how long collectives of each payload and kind take at least, on any rank, ns."""
    least: dict[tuple[int, str], int] = {}
    for large in ranks:
        d = large.a.t.device
        for key, length in zip(keys(large), (d.end - d.start)[large.rows].tolist(), strict=True):
            least[key] = min(length, least.get(key, length))
    return least


def keys(large: Large) -> list[tuple[int, str]]:
    """Return of each collective how much it carries, and what it is."""
    d, strings = large.a.t.device, large.a.t.trace.strings
    return [(int(d.payload[row]), strings[d.collective[row]]) for row in large.rows.tolist()]


def transfer(large: Large, least: dict[tuple[int, str], int]) -> int:
    """Return the last part of these collectives, in which they carry data, with no other kernel beside it, ns."""
    a, d = large.a, large.a.t.device
    end = d.end[large.rows]
    start: Ints = end - np.array([least[key] for key in keys(large)])
    spans = {
        one.device: clip(union(start[mine], end[mine]), one.low, one.high)
        for one in a.devices
        for mine in [d.device[large.rows] == one.device]
    }
    return sum(alone(a, spans))
