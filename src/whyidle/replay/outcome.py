"""What a replay says: how long each step takes where the GPU finishes it, and how busy the GPU is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whyidle.measure.steps import DROP_FIRST_FROM
from whyidle.model.evidence import Floats64
from whyidle.model.intervals import clip, union
from whyidle.replay.engine import Played
from whyidle.replay.graph import Graph

BACKLOG: Final = 0.02  # of the recorded time: by so much the host was ahead, steps overlap and the first does not


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Steps of a replay, ns: from the end of the GPU's work for one to that for the next.

    The host runs ahead of the GPU until the launch queue is full, so its marks tell how the queue fills. The last step
    lasts until the host is done, too.
    """

    steps: Floats64
    gpu_idle_share: float | None
    scale: float = 1.0  # samples per step, of those that were recorded: steps are per sample of these
    first: int = 0  # steps that are left out of the mean, too

    @property
    def mean_ns(self) -> float:
        return float(self.steps[self.first :].mean()) / self.scale

    @property
    def median_ns(self) -> float:
        """Return the median, the first dropped when there are at least four."""
        kept = self.steps[1:] if len(self.steps) >= DROP_FIRST_FROM else self.steps
        return float(np.median(kept)) / self.scale


def outcome(graphs: Sequence[Graph], played: Sequence[Played], scale: float = 1.0) -> Outcome:
    """Return what the ranks do together: a step is done when the last of them has done it."""
    ends = np.max([p.drained for p in played], axis=0)
    ends[0] = min(float(p.marks[0]) for p in played)
    ends[-1] = max(float(ends[-1]), *(float(p.marks[-1]) for p in played))
    steps = np.diff(ends)
    backlog = max(g.backlog for g in graphs)
    first = int(backlog > BACKLOG * max(g.end - g.origin for g in graphs) and len(steps) > 1)
    idle = [share for g, p in zip(graphs, played, strict=True) for share in idle_shares(g, p)]
    return Outcome(steps, float(np.mean(idle)) if idle else None, scale, first)


def no_longer(after: Outcome, before: Outcome) -> Outcome:
    """Return what a replay says with steps that are no longer than before, where all of it takes no longer.

    Where the first step is left out, what is saved in it would seem to make the others longer.
    """
    longer = after.mean_ns / before.mean_ns if before.mean_ns else 1.0
    if not after.first or after.scale != 1.0 or longer <= 1 or after.steps.sum() > before.steps.sum():
        return after
    return replace(after, steps=after.steps / longer)


def idle_shares(g: Graph, p: Played) -> list[float]:
    """Return for each device the share of the replay in which nothing ran, once work from before it has ended."""
    high = int(max(p.returned[-1], p.ended.max(initial=0.0)))
    of_stream = np.array([device for device, _ in g.streams])
    device = of_stream[g.stream] if len(g.row) else np.empty(0)
    shares = []
    for one in np.unique(device):
        low = int(max(p.returned[0], g.tails[of_stream == one].max(initial=0.0)))
        mine = (device == one) & (p.ended > p.began)
        busy = union(np.rint(p.began[mine]).astype(np.int64), np.rint(p.ended[mine]).astype(np.int64))
        shares.append(1 - clip(busy, low, high).total / max(high - low, 1))
    return shares
