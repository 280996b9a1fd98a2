"""What could be drawn, before a page's room is shared out: lanes with all of their slices, times from the zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Codes, Ints
from whyidle.model.intervals import Intervals
from whyidle.model.picture import LaneKind

LEVELS: Final = 16  # of slices that nest in a lane; deeper ones are counted, and not drawn: no screen has room for them


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A lane with every slice that the recording has, in order of start."""

    title: str
    kind: LaneKind
    start: Ints  # ns
    end: Ints  # ns
    name: Codes  # index into Sketch.names
    depth: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # empty: none nests
    hidden: int = 0  # slices that are not among these, as frames that last from the first moment to the last

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A timeline of one recording with everything in it."""

    title: str
    file: str
    rank: int | None
    names: tuple[str, ...]
    rows: tuple[Row, ...]
    low: int = 0  # ns: its left end at the latest; slices may begin before
    high: int = 0
    notes: tuple[str, ...] = ()  # sentences
    window: tuple[int, int] | None = None  # ns, as Timeline.window

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the time that holds all slices."""
        low = min((int(row.start[0]) for row in self.rows if len(row)), default=self.low)
        high = max((int(row.end.max()) for row in self.rows if len(row)), default=self.high)
        return min(low, self.low), max(high, self.high)


def depths(start: Ints, end: Ints) -> NDArray[np.int64]:
    """Return in how many others each slice of one thread lies; they are in order of start, the longest first."""
    if not len(start):
        return np.zeros(0, np.int64)
    over = np.searchsorted(np.sort(end), start, "right")
    depth: NDArray[np.int64] = np.arange(len(start)) - over
    return depth.clip(0)  # one that lasts no time has ended before it is counted


def row_of(title: str, kind: LaneKind, spans: Intervals, name: Codes, zero: int) -> Row:
    """Return a lane whose slices do not nest."""
    return Row(title, kind, spans.start - zero, spans.end - zero, name)


def joined(start: Ints, end: Ints, name: Codes) -> tuple[Intervals, Codes]:
    """Return slices in order of start, those of one name that follow each other without a pause as one."""
    keep = end > start
    start, end, name = start[keep], end[keep], name[keep]
    order = np.argsort(start, kind="stable")
    start, end, name = start[order], end[order], name[order]
    if not len(start):
        return Intervals(start, end), name
    new = np.concatenate(([True], (start[1:] != end[:-1]) | (name[1:] != name[:-1])))
    first = np.flatnonzero(new)
    last = np.append(first[1:] - 1, len(start) - 1)
    return Intervals(start[first], end[last]), name[first]
