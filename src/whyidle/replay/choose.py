"""Which steps are replayed: all that follow each other, or the steadiest few where there are too many to try fixes on.

Of many ranks that are too much together one is replayed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whyidle.measure.analysis import Analysis
from whyidle.measure.steps import Steps

FEWEST: Final = 3  # steps: of fewer there is no median
STEADY: Final = 5  # steps that are enough
# Operations of all steps and ranks. A replay takes 1 to 3 us for each, and some thirty are made.
MOST: Final = 30_000
MOST_OF_RANKS: Final = 120_000  # in STEADY steps of all ranks, or one rank stands for them
# Times the shortest mean step of a rank: ranks of one job step together, and a mean over others is no step of any
# (judgement).
UNLIKE: Final = 1.25


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is replayed: ranks, and of each the steps from `low` to `high` (exclusive), by their place."""

    analyses: tuple[Analysis, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    why_not: str = ""


def choose(analyses: Sequence[Analysis]) -> Chosen:
    """Return the steps and ranks to replay, or why none can be."""
    analyses = [a for a in analyses if a.devices]
    if not analyses:
        return Chosen((), (), (), "no trace of the GPU's work was recorded")
    if not all(a.steps for a in analyses):
        return Chosen((), (), (), "the recording has no marks of steps: call prof.step() after each")
    if unlike := _unlike(analyses):
        return Chosen((), (), (), unlike)
    runs = [longest(a.t.steps) for a in analyses]
    numbers = [set(a.t.steps.number[low:high].tolist()) for a, (low, high) in zip(analyses, runs, strict=True)]
    common = sorted(set.intersection(*numbers)) if numbers else []
    if len(common) < FEWEST:
        if len(analyses) > 1 and max(map(len, numbers)) >= FEWEST:
            return choose([analyses[int(np.argmax([len(steps) for steps in numbers]))]])
        follow = "1 step was recorded" if len(common) == 1 else f"{len(common)} steps follow each other"
        said = follow if common else "no step was recorded by all ranks"
        return Chosen((), (), (), f"{said}, and a replay takes {FEWEST} or more that follow each other: record five")
    lows = [int(np.flatnonzero(a.t.steps.number == common[0])[0]) for a in analyses]
    highs = [int(np.flatnonzero(a.t.steps.number == common[-1])[0]) + 1 for a in analyses]
    work = sum(operations(a, low, high) for a, low, high in zip(analyses, lows, highs, strict=True))
    if not work:
        return Chosen((), (), (), "nothing ran on the GPU in the steps that follow each other")
    count = len(common)
    if work <= MOST or count <= STEADY:
        few = work * min(count, STEADY) / count
        if few > MOST_OF_RANKS and len(analyses) > 1:
            return choose([max(analyses, key=lambda a: sum(device.idle for device in a.devices))])
        return Chosen(tuple(analyses), tuple(lows), tuple(highs))
    first = steadiest(analyses[0].t.steps, lows[0], highs[0])
    lows = [low + first for low in lows]
    few = sum(operations(a, low, low + STEADY) for a, low in zip(analyses, lows, strict=True))
    if few > MOST_OF_RANKS and len(analyses) > 1:
        return choose([max(analyses, key=lambda a: sum(device.idle for device in a.devices))])
    return Chosen(tuple(analyses), tuple(lows), tuple(low + STEADY for low in lows))


def _unlike(analyses: Sequence[Analysis]) -> str:
    """Return that ranks do not step together, which no job's do; empty if they do."""
    paces = [float(a.t.steps.times.mean()) / 1e6 for a in analyses]
    if max(paces) <= UNLIKE * min(paces):
        return ""
    slow, fast = (f"{float(f'{pace:.3g}'):,.12g} ms" for pace in (max(paces), min(paces)))
    ends = f"the mean step of one takes {slow}, that of another {fast}"
    return f"the ranks do not step together, as those of one job do: {ends}"


def longest(steps: Steps) -> tuple[int, int]:
    """Return the longest run of steps that follow each other, as places [low, high)."""
    follows = (steps.number[1:] == steps.number[:-1] + 1) & (steps.start[1:] >= steps.start[:-1])
    edges = np.concatenate(([0], np.flatnonzero(~follows) + 1, [len(steps)]))
    place = int(np.argmax(np.diff(edges)))
    return int(edges[place]), int(edges[place + 1])


def operations(a: Analysis, low: int, high: int) -> int:
    """Return how many operations were running or started in these steps."""
    start = a.t.device.start
    window = a.t.steps.start[low], a.t.steps.end[high - 1]
    return int(np.searchsorted(start, window[1]) - np.searchsorted(start, window[0]))


def steadiest(steps: Steps, low: int, high: int) -> int:
    """Return the place, from `low`, of the first of STEADY steps that are most like the median; not the first step."""
    times = (steps.end - steps.start)[low:high].astype(np.float64)
    off = np.abs(times - np.median(times))
    off[0] = np.inf if len(times) > STEADY else off[0]
    sums = np.array([off[place : place + STEADY].sum() for place in range(len(times) - STEADY + 1)])
    return int(np.argmin(sums))
