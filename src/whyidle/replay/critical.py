"""The critical path: what the step waited for, one thing after the other, from its end back to its beginning.

At each point of the replay something was waited for: a kernel that ran, the host on its way to the next launch, a
launch on its way to the device, a batch. The path goes from what ended last to what that had waited for, and so on.
Shortening what is on it shortens the step, until something else is; shortening anything else does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from whyidle.measure import names
from whyidle.measure.rows import Index, among
from whyidle.model.evidence import Kind
from whyidle.model.intervals import Intervals, overlap
from whyidle.replay.engine import Played
from whyidle.replay.graph import Graph, Node
from whyidle.replay.select import Selection
from whyidle.replay.waits import EVERY_STREAM

if TYPE_CHECKING:
    from whyidle.replay.replay import Replay

EQUAL: Final = 0.5  # ns: what ends so close to a begin was waited for


def critical_path(r: Replay) -> Mapping[str, float]:
    """Return the share of the replayed time by what lay on the path of the rank that is done last.

    "kernel", "copy" and "collective" are work of the GPU; other names are the causes of docs/method.md.
    """
    last = int(np.argmax([max(p.drained[-1], p.marks[-1]) for p in r.base_played]))
    total = walk(r.graphs[last], r.base_played[last], r.selections[last])
    whole = sum(total.values())
    shares = {cause: time / whole for cause, time in total.items() if whole > 0 and time > 0}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def walk(g: Graph, p: Played, selection: Selection) -> dict[str, float]:
    """Return the time on the path by what it was, ns."""
    path = Path(g, p, selection)
    node, op = len(g) - 1, -1
    if len(g.row) and float(p.ended.max()) > float(p.returned[-1]):
        node, op = -1, int(np.argmax(p.ended))
    while node >= 0 or op >= 0:
        node, op = path.before_operation(op) if op >= 0 else path.before_node(node)
    return path.total()


class Path:
    """The way back from the end. A step of it leads to a node or to an operation, whichever is not -1."""

    def __init__(self, g: Graph, p: Played, selection: Selection) -> None:
        self.g, self.p, self.selection = g, p, selection
        self.time: dict[str, float] = {}
        self.host: list[tuple[int, int, float]] = []  # recorded [start, end) of host work, and what is left of it, ns
        self.work = kinds(g, selection)
        self.allocates = among(g.call, selection.a.host.slices["allocator"])
        self.previous, self.behind = before(g), before_on_stream(g)
        self.node_of = np.searchsorted(g.first, np.arange(len(g.row)), "right") - 1

    def add(self, cause: str, time: float) -> None:
        if 0 < time < np.inf:
            self.time[cause] = self.time.get(cause, 0.0) + time

    def before_operation(self, op: int) -> tuple[int, int]:
        """Go back from an operation: to one of another stream, to the one before it on its own, or to its launch."""
        g, p = self.g, self.p
        self.add(self.work[op], float(p.ended[op] - p.began[op]))
        at, other, earlier = float(p.began[op]), int(g.dependency[op]), int(self.behind[op])
        if other >= 0 and p.ended[other] + g.lag[op] >= at - EQUAL:
            self.add("stream_wait", float(g.lag[op]))
            return -1, other
        if earlier >= 0 and p.ended[earlier] + g.spacing[op] >= at - EQUAL:
            self.add("kernel_gap", float(g.spacing[op]))
            return -1, earlier
        self.add("launch_latency", float(g.latency[op]))
        return self.host_before(int(self.node_of[op])), -1

    def before_node(self, node: int) -> tuple[int, int]:
        """Go back from a call: to what it waited for, or to what its thread did before."""
        g, p = self.g, self.p
        done, target, room = float(p.returned[node]), int(g.target[node]), int(g.back[node])
        if target == EVERY_STREAM:
            target = latest(g, p, node)
        if target >= 0 and p.ended[target] + g.ret[node] >= done - EQUAL:
            self.add("allocator" if self.allocates[node] else "sync_return", float(g.ret[node]))
            return -1, target
        if room >= 0 and p.ended[room] >= done - EQUAL:
            return -1, room
        if g.kind[node] == Node.TAKE:
            earlier = int(self.previous[node])
            self.add("data_wait", done - (float(p.returned[earlier]) if earlier >= 0 else 0.0) - float(g.gap[node]))
        else:
            self.add("allocator" if self.allocates[node] else "dispatch", float(g.own[node]))
        return self.host_before(node), -1

    def host_before(self, node: int) -> int:
        """Note the host work before a node; return the node before that."""
        g = self.g
        if g.gap[node] > 0:
            self.host.append((int(min(g.gap_start[node], g.start[node])), int(g.start[node]), float(g.gap[node])))
        return int(self.previous[node])

    def total(self) -> dict[str, float]:
        """Return the time by what it was, ns: host work by the causes that it was recorded for."""
        for cause, time in of_host(self.host, self.selection).items():
            self.add(cause, time)
        return self.time


def before(g: Graph) -> Index:
    """Return for each node the one before it on its thread, or that it follows; -1 none."""
    previous = np.full(len(g), -1, np.intp)
    for line in np.unique(g.thread):
        mine = np.flatnonzero(g.thread == line)
        previous[mine[1:]] = mine[:-1]
    return np.where(g.follows >= 0, g.follows, previous)


def before_on_stream(g: Graph) -> Index:
    """Return for each operation the one before it on its stream; -1 none."""
    behind = np.full(len(g.row), -1, np.intp)
    for line in np.unique(g.stream):
        mine = np.flatnonzero(g.stream == line)
        behind[mine[1:]] = mine[:-1]
    return behind


def latest(g: Graph, p: Played, node: int) -> int:
    """Return the operation that ends last of those launched up to a node; -1 none."""
    count = int(g.first[node + 1])
    return int(np.argmax(p.ended[:count])) if count else -1


def kinds(g: Graph, selection: Selection) -> list[str]:
    """Return for each operation what work it is."""
    t = selection.a.t
    collective = t.strings_like(names.COLLECTIVE)[t.device.name[g.row]]
    kind = np.where(t.device.kind[g.row] == Kind.KERNEL, "kernel", "copy")
    found: list[str] = np.where(collective, "collective", kind).tolist()
    return found


def of_host(host: list[tuple[int, int, float]], selection: Selection) -> dict[str, float]:
    """Return host work on the path by cause, ns: each stretch is shared out as it was recorded."""
    if not host:
        return {}
    start, end, time = (np.array(column) for column in zip(*host, strict=True))
    total: dict[str, float] = {}
    known = np.zeros(len(start))
    for cause, spans in selection.host_parts.items():
        part = overlap(start, end, Intervals(spans.start, spans.end)) / np.maximum(end - start, 1)
        known += part
        total[cause] = float((part * time).sum())
    total["unknown"] = total.get("unknown", 0.0) + float((np.maximum(1 - known, 0.0) * time).sum())
    return total
