"""What a replay has to show before anything is predicted with it.

It repeats what was recorded; nothing starts before it is launched; a faster GPU or host makes no step longer, and one
of them makes it shorter; and no prediction beats the longest of what remains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from whyidle.measure.timeline import pick
from whyidle.replay.graph import Graph
from whyidle.replay.outcome import outcome

if TYPE_CHECKING:
    from whyidle.replay.replay import Replay

IDENTITY: Final = 0.02  # of the median step (method, G1)
SOME: Final = 0.25  # of what twice as fast a GPU, host and loader should save, that the step has to follow (method, G3)
MORE: Final = 0.002  # of the step: by so much rounding may make it longer
EARLY: Final = 0.01  # of operations, that may seem to start before their launch (clocks that drift)
HALF: Final = 0.5


def refusal(r: Replay) -> str:
    """Return why nothing may be predicted with this replay; empty if it may."""
    if not all(len(g.row) for g in r.graphs):
        return "no work of the GPU can be joined with the call that launched it"
    off = r.identity_error
    if off > IDENTITY:
        return f"a replay of the steps as they are is {off:.0%} off"
    early = max((launched_late(g, r, place) for place, g in enumerate(r.graphs)), default=0.0)
    if early > EARLY:
        return f"{early:.0%} of operations start before they are launched: the clocks of host and GPU disagree"
    base = r.base.mean_ns
    if max(mean(r, faster_gpu), mean(r, faster_host)) > base * (1 + MORE):
        return "a faster GPU or host would make the replayed step longer"
    if base - mean(r, lambda g: faster_loader(faster_gpu(faster_host(g)))) < SOME * HALF * base:
        return "neither a faster GPU nor a faster host would shorten the step: what it waits for was not recorded"
    return ""


def mean(r: Replay, change: Callable[[Graph], Graph]) -> float:
    """Return the mean step of the replay with a change to the graph of each rank, ns."""
    graphs = [change(g) for g in r.graphs]
    return outcome(graphs, r.run(graphs)).mean_ns


def launched_late(g: Graph, r: Replay, place: int) -> float:
    """Return the share of operations that start before their launch."""
    t = r.chosen.analyses[place].t
    launch = t.launch[g.row]
    known = launch >= 0
    early = pick(t.host.start, launch, 0)[known] > g.began[known] + 1_000
    return float(early.mean()) if known.any() else 0.0


def faster_gpu(g: Graph) -> Graph:
    """Return the graph with all device work twice as fast."""
    return replace(g, duration=g.duration * HALF)


def faster_host(g: Graph) -> Graph:
    """Return the graph with all host work twice as fast."""
    return replace(g, gap=g.gap * HALF, own=g.own * HALF)


def faster_loader(g: Graph) -> Graph:
    """Return the graph with batches made twice as fast."""
    if g.loader is None:
        return g
    return replace(g, loader=g.loader.quicker([HALF] * len(g.loader.makes)))
