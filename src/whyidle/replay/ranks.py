"""All ranks in one replay: a collective begins when the last of its ranks has come, and ends for all at once.

No clocks need to agree. Ranks leave a collective together, which is how their times are laid beside each other, and
what is left of a collective once all have come is the shortest of its kernels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from whyidle.measure.analysis import Analysis
from whyidle.measure.collective import occurrences
from whyidle.model.evidence import Floats64
from whyidle.replay.engine import Played, play
from whyidle.replay.graph import Graph

# when ranks come to a collective, by when they came: at the latest of these times it begins
Release: TypeAlias = Callable[[Sequence[float]], Sequence[float]]


@dataclass(slots=True, eq=False)
class Meetings:
    """Which operations of which ranks are one collective, and how the ranks' times lie beside each other."""

    of: list[dict[int, int]]  # by rank: operation -> meeting
    members: list[int]  # of each meeting, ranks that take part
    transfer: list[float]  # ns, of each, once all have come
    shift: list[float] = field(default_factory=list)  # ns, by rank: its time less that of the first rank

    def __len__(self) -> int:
        return len(self.members)


def meetings(analyses: Sequence[Analysis], graphs: Sequence[Graph]) -> Meetings:
    """Return what the ranks have in common; of a collective that some rank did not record, nothing."""
    found = Meetings([{} for _ in graphs], [], [])
    ended: list[dict[int, float]] = []
    of_ranks = [operations(a, g) for a, g in zip(analyses, graphs, strict=True)]
    for key in dict.fromkeys(key for rank in of_ranks for key in rank):
        ranks = [place for place, rank in enumerate(of_ranks) if key in rank]
        few = len(ranks) < (2 if key[2] else len(graphs))  # of an unknown group all are members
        if few or len({len(of_ranks[place][key]) for place in ranks}) > 1:
            continue
        for together in zip(*(of_ranks[place][key] for place in ranks), strict=True):
            lengths = [float(graphs[place].duration[j]) for place, j in zip(ranks, together, strict=True)]
            ends = [
                float(graphs[place].began[j] - graphs[place].origin) + length
                for place, j, length in zip(ranks, together, lengths, strict=True)
            ]
            for place, j in zip(ranks, together, strict=True):
                found.of[place][j] = len(found)
            ended.append(dict(zip(ranks, ends, strict=True)))
            found.members.append(len(ranks))
            found.transfer.append(min(lengths))
    found.shift = shifts(ended, len(graphs))
    return found


def shifts(ended: Sequence[Mapping[int, float]], ranks: int) -> list[float]:
    """Return each rank's time less that of the first, by when they leave the collectives that they share.

    Ranks that share none with the first are set by those that do; of ranks that are not connected the first counts.
    """
    known = {0: 0.0}
    while len(known) < ranks:
        apart: dict[int, list[float]] = defaultdict(list)
        for ends in ended:
            base = next((place for place in ends if place in known), None)
            if base is not None:
                for place in ends.keys() - known.keys():
                    apart[place].append(ends[place] - ends[base] + known[base])
        known |= {place: float(np.median(mine)) for place, mine in apart.items()} or {
            next(place for place in range(ranks) if place not in known): 0.0
        }
    return [known[place] for place in range(ranks)]


def changed(meets: Meetings, graphs: Sequence[Graph]) -> Meetings:
    """Return the meetings once the graphs are changed: those that are left, and how long they take then."""
    of: list[dict[int, int]] = []
    transfer = [np.inf] * len(meets)
    for mine, g in zip(meets.of, graphs, strict=True):
        of.append({j: meeting for j, meeting in mine.items() if g.duration[j] > 0 or g.latency[j] > -np.inf})
        for j, meeting in of[-1].items():
            transfer[meeting] = min(transfer[meeting], float(g.duration[j]))
    return replace(meets, of=of, transfer=transfer)


def operations(a: Analysis, g: Graph) -> dict[tuple[str, int, str], list[int]]:
    """Return the collectives of a graph by name, message and group, each in order."""
    place = {int(row): j for j, row in enumerate(g.row.tolist())}
    return {
        key: [place[row] for row in rows.tolist() if row in place]
        for key, rows in occurrences(a).items()
        if any(row in place for row in rows.tolist())
    }


def as_they_come(at: Sequence[float]) -> Sequence[float]:
    """Return when ranks come, unchanged."""
    return at


def play_together(graphs: Sequence[Graph], meets: Meetings, release: Release = as_they_come) -> list[Played]:
    """Run all ranks; `release` tells when they come to a collective instead. Marks are in the ranks' common time.

    A rank that is taken to come at another time goes on from there: what made it late is taken back.
    """
    games = [play(g, meets.of[place]) for place, g in enumerate(graphs)]
    ranks = [Rank(by) for by in meets.shift]
    arrived: dict[int, list[tuple[int, float]]] = defaultdict(list)
    waiting: dict[int, int] = {}  # rank -> meeting

    def advance(place: int, answer: float | None) -> int | None:
        """Let a rank go on; return the meeting that it comes to."""
        try:
            j, at = next(games[place]) if answer is None else games[place].send(answer)
        except StopIteration as end:
            ranks[place].played = end.value
            return None
        meeting = meets.of[place][j]
        arrived[meeting].append((place, at))
        waiting[place] = meeting
        return meeting

    ready = [meeting for place in range(len(games)) if (meeting := advance(place, None)) is not None]
    while waiting:
        full = [meeting for meeting in dict.fromkeys(ready) if len(arrived[meeting]) == meets.members[meeting]]
        if not full:  # ranks met in another order than they were matched: the first goes on with who is there
            full = [min(waiting.values())]
        ready = []
        for meeting in full:
            there = arrived.pop(meeting)
            come = release([at - ranks[place].shift for place, at in there])
            begins = max(come)
            for (place, at), when in zip(there, come, strict=True):
                ranks[place].pull(at, when)
                del waiting[place]
                after = advance(place, max(at, begins + ranks[place].shift) + meets.transfer[meeting])
                if after is not None:
                    ready.append(after)
    return [rank.in_common_time() for rank in ranks]


class Rank:
    """Where the time of one rank lies in the time that all share."""

    def __init__(self, shift: float) -> None:
        self.shift = shift  # its own time less the common one, ns
        self.since, self.shifts = [-np.inf], [shift]
        self.played: Played | None = None

    def pull(self, at: float, when: float) -> None:
        """Let what this rank came to at `at`, in its own time, be at `when` in the common time."""
        late = at - self.shift - when
        if late:
            self.shift += late
            self.since.append(at)
            self.shifts.append(self.shift)

    def in_common_time(self) -> Played:
        """Return what was played, with its marks in the common time."""
        assert self.played is not None
        return replace(self.played, marks=self.common(self.played.marks), drained=self.common(self.played.drained))

    def common(self, times: Floats64) -> Floats64:
        """Return these of its times in the common time."""
        return times - np.array(self.shifts, np.float64)[np.searchsorted(self.since, times, "right") - 1]


def to_others(factor: float) -> Release:
    """Return when ranks come if the late ones are nearer to the others: 1 - factor of the way to the middle rank.

    Of two in the middle to the earlier one: of two ranks one is late.
    """

    def release(at: Sequence[float]) -> Sequence[float]:
        usual = sorted(at)[(len(at) - 1) // 2]
        return [min(one, usual + factor * (one - usual)) for one in at]

    return release


def to_mean(factor: float) -> Release:
    """Return when ranks come if work is shared out more equally: all are nearer to the mean, as is the work itself."""

    def release(at: Sequence[float]) -> Sequence[float]:
        mean = sum(at) / len(at)
        return [mean + factor * (one - mean) for one in at]

    return release
