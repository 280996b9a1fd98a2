"""One pass over a graph: when each call returns, and each operation runs, if all takes as long as the columns say.

A call begins when its thread has done what lies before it. An operation begins at the latest of: its launch has
arrived, the one before it on its stream has ended, what it waits for has ended. A call that waits returns when that
has ended, a launch that finds the queue full when there is room. Nodes come in the order in which they happened, and
depend on earlier ones only, so one pass is enough: some 2 us per launch.
"""

from __future__ import annotations

from collections.abc import Container, Generator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from whyidle.model.evidence import Floats64
from whyidle.replay.graph import Graph, Node
from whyidle.replay.waits import EVERY_STREAM

# A collective that meets other ranks: its place among the graph's operations and when this rank has come to it; the
# answer is when it ends.
Meeting: TypeAlias = "Generator[tuple[int, float], float, Played]"


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """When everything happened, ns from the origin of the graph."""

    returned: Floats64  # nodes
    began: Floats64  # operations
    ended: Floats64
    marks: Floats64  # of steps on the host, one more than steps
    drained: Floats64  # when all that was launched before each mark has ended


def play(g: Graph, meets: Container[int] = ()) -> Meeting:
    """Run a graph; `meets` are the operations that wait for other ranks."""
    take = g.loader.next if g.loader is not None else None
    batch = 0
    ended, began = [0.0] * len(g.row), [0.0] * len(g.row)
    returned: list[float] = []
    marks: list[float] = []
    drained: list[float] = []
    tails = g.tails.tolist() or [0.0]
    clocks = [0.0] * (int(g.thread.max(initial=0)) + 1)
    stream, latency, spacing = g.stream.tolist(), g.latency.tolist(), g.spacing.tolist()
    dependency, lag, duration = g.dependency.tolist(), g.lag.tolist(), g.duration.tolist()
    begun, over = ((times - g.origin).astype(np.float64).tolist() for times in (g.start, g.stop))
    nodes = zip(
        g.kind.tolist(), g.thread.tolist(), g.gap.tolist(), g.own.tolist(), g.target.tolist(), g.ret.tolist(),
        g.back.tolist(), g.room.tolist(), g.follows.tolist(), g.first[:-1].tolist(), g.first[1:].tolist(), strict=True,
    )  # fmt: skip
    mark, batches = int(Node.MARK), int(Node.TAKE)
    for node, (kind, thread, gap, own, target, ret, back, room, follows, first, after) in enumerate(nodes):
        now = clocks[thread] + gap
        if follows >= 0:  # as far behind the main thread as it was
            now = max(clocks[thread], returned[follows] + begun[node] - over[follows])
        for j in range(first, after):
            line = stream[j]
            at = now + latency[j]
            ready = tails[line] + spacing[j]
            at = max(at, ready)
            other = dependency[j]
            if other >= 0:
                ready = ended[other] + lag[j]
                at = max(at, ready)
            began[j] = at
            at = (yield j, at) if j in meets else at + duration[j]
            ended[j] = at
            tails[line] = at
        if kind == batches and take is not None:
            now = take(batch, now)
            batch += 1
        else:
            now += own
        now = max(now, room)
        if back >= 0 and ended[back] > now:
            now = ended[back]
        if target >= 0:
            now = max(now, ended[target] + ret)
        elif target == EVERY_STREAM:
            latest = max(tails)
            now = max(now, latest + ret)
        clocks[thread] = now
        returned.append(now)
        if kind == mark:
            marks.append(now)
            drained.append(max(tails))
    return Played(*(np.array(column) for column in (returned, began, ended, marks, drained)))


def alone(g: Graph) -> Played:
    """Run a graph by itself."""
    game = play(g)
    try:
        next(game)
    except StopIteration as done:
        played: Played = done.value
        return played
    raise AssertionError("a graph that meets nobody does not stop")
