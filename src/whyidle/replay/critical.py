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
from whyidle.model.evidence import Kind
from whyidle.model.intervals import Intervals, overlap
from whyidle.replay.engine import Played
from whyidle.replay.graph import EVERY_STREAM, Graph, Node
from whyidle.replay.select import Selection

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
    total: dict[str, float] = {}
    work = kinds(g, selection)
    host: list[tuple[int, int, float]] = []  # recorded [start, end) of host work on the path, and how long it is
    previous = before(g)
    behind = before_on_stream(g)
    node_of = np.searchsorted(g.first, np.arange(len(g.row)), "right") - 1

    def add(cause: str, time: float) -> None:
        if time > 0:
            total[cause] = total.get(cause, 0.0) + time

    node, op = len(g) - 1, -1
    if len(g.row) and float(p.ended.max()) > float(p.returned[-1]):
        node, op = -1, int(np.argmax(p.ended))
    while node >= 0 or op >= 0:
        if op >= 0:  # an operation: it ran, and before that waited for its launch, its stream, or another stream
            add(work[op], float(p.ended[op] - p.began[op]))
            at, other, earlier = float(p.began[op]), int(g.dependency[op]), int(behind[op])
            if other >= 0 and p.ended[other] + g.lag[op] >= at - EQUAL:
                add("stream_wait", float(g.lag[op]))
                op = other
            elif earlier >= 0 and p.ended[earlier] + g.spacing[op] >= at - EQUAL:
                add("kernel_gap", float(g.spacing[op]))
                op = earlier
            else:
                node, op = int(node_of[op]), -1
                add("launch_latency", float(g.latency[node_latency(g, node)]))
                node = began(g, p, node, previous, host)
            continue
        done, target = float(p.returned[node]), int(g.target[node])
        if target == EVERY_STREAM:
            target = latest(g, p, node)
        room = int(g.back[node])
        if target >= 0 and p.ended[target] + g.ret[node] >= done - EQUAL:
            add("sync_return", float(g.ret[node]))
            node, op = -1, target
        elif room >= 0 and p.ended[room] >= done - EQUAL:
            node, op = -1, room
        else:
            if g.kind[node] == Node.TAKE:
                started = start_of(g, p, node, previous)
                add("data_wait", done - started)
            else:
                add("dispatch", float(g.own[node]))
            node = began(g, p, node, previous, host)
    for cause, time in of_host(host, selection).items():
        add(cause, time)
    return total


def node_latency(g: Graph, node: int) -> int:
    """Return the first operation of a node, which came with its launch."""
    return int(g.first[node])


def start_of(g: Graph, p: Played, node: int, previous: np.ndarray) -> float:
    """Return when a node's call began in the replay, ns."""
    earlier = int(previous[node])
    return (float(p.returned[earlier]) if earlier >= 0 else 0.0) + float(g.gap[node])


def began(g: Graph, p: Played, node: int, previous: np.ndarray, host: list[tuple[int, int, float]]) -> int:
    """Note the host work before a node; return the node before it on its thread."""
    if g.gap[node] > 0:
        host.append((int(min(g.gap_start[node], g.start[node])), int(g.start[node]), float(g.gap[node])))
    return int(previous[node])


def before(g: Graph) -> np.ndarray:
    """Return for each node the one before it on its thread, or that it follows; -1 none."""
    previous = np.full(len(g), -1, np.intp)
    for line in np.unique(g.thread):
        mine = np.flatnonzero(g.thread == line)
        previous[mine[1:]] = mine[:-1]
    return np.where(g.follows >= 0, g.follows, previous)


def before_on_stream(g: Graph) -> np.ndarray:
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
