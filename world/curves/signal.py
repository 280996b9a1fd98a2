"""A level over time, exact: how much of each moment a GPU is busy, and what of it any window sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """A level that is constant between two edges: edges (n + 1,) in s, growing; level (n,)."""

    edges: Floats
    level: Floats

    @property
    def integral(self) -> Floats:
        """Return the integral of the level from the first edge to each edge, (n + 1,), s."""
        return np.concatenate(([0.0], np.cumsum(np.diff(self.edges) * self.level)))

    @property
    def mean(self) -> float:
        """Return the mean level from the first edge to the last."""
        return float(self.integral[-1] / (self.edges[-1] - self.edges[0]))

    def over(self, start: Floats, end: Floats) -> Floats:
        """Return the mean level in each window [start, end), (k,); before the first edge and past the last it is 0."""
        area = np.interp(np.stack((start, end)), self.edges, self.integral)
        return np.asarray((area[1] - area[0]) / np.maximum(end - start, 1e-9))


def joined(durations: Floats, level: Floats, seconds: float) -> Signal:
    """Return pieces one after the other from time 0 on, cut off at `seconds`; the last is drawn out to there."""
    edges = np.concatenate(([0.0], np.cumsum(durations)))
    kept = min(int(np.searchsorted(edges, seconds)), len(level))  # pieces that begin before the end
    edges, level = np.append(edges[:kept], seconds), level[:kept]
    wide = np.diff(edges) > 0
    return Signal(np.append(edges[:-1][wide], seconds), level[wide])
