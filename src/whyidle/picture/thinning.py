"""Which slices a page draws, where a recording has more than a page can hold: it is shared out over all lanes.

First the steps and the idle time, of which the longest are kept; then the other lanes, each as much as the others.
There half of the room goes to the longest slices, and half to those that are the longest of each part of the time, so
that no stretch of a lane is empty because another has longer ones. `covered` tells of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.rows import Index
from whyidle.model.evidence import Floats, Ints
from whyidle.model.intervals import overlap, union
from whyidle.model.picture import Lane, Timeline
from whyidle.picture.sketch import LEVELS, Row, Sketch

BUDGET: Final = 100_000  # slices of a page, in all
FIRST: Final = 0.5  # of them for steps and idle time, where there are so many
STEPS: Final = 5_000  # of a lane: each has a name of its own, which a page has to hold
PARTS: Final = 2_048  # of a lane's overview, at most: pixels of a wide screen
PARTS_LEAST: Final = 256
PARTS_OF_ALL: Final = 131_072  # parts of a page, in all: bytes that it holds
SPREAD: Final = 256  # parts of the time at most that each have slices of their own

FOREMOST: Final = ("step", "idle")


def drawn(sketches: Sequence[Sketch], budget: int = BUDGET) -> tuple[Timeline, ...]:
    """Return timelines that hold no more slices than this together."""
    rows = [row for sketch in sketches for row in sketch.rows]
    room = rooms(rows, budget)
    whole = sum(size < len(row) for row, size in zip(rows, room, strict=True))
    parts = max(min(PARTS_OF_ALL // max(whole, 1), PARTS), PARTS_LEAST)
    left = iter(room)
    return tuple(_timeline(sketch, [next(left) for _ in sketch.rows], parts) for sketch in sketches)


def rooms(rows: Sequence[Row], budget: int) -> list[int]:
    """Return how many slices of each lane are drawn."""
    wanted = [_drawable(row) for row in rows]
    foremost = [row.kind in FOREMOST for row in rows]
    steps_and_gaps = shared([want if first else 0 for want, first in zip(wanted, foremost, strict=True)], budget)
    if sum(steps_and_gaps) > FIRST * budget:
        rest = shared([0 if first else want for want, first in zip(wanted, foremost, strict=True)], budget // 2)
        left = budget - sum(rest)
        steps_and_gaps = shared([want if first else 0 for want, first in zip(wanted, foremost, strict=True)], left)
    else:
        left = budget - sum(steps_and_gaps)
        rest = shared([0 if first else want for want, first in zip(wanted, foremost, strict=True)], left)
    return [a + b for a, b in zip(steps_and_gaps, rest, strict=True)]


def shared(wanted: Sequence[int], budget: int) -> list[int]:
    """Return what each gets: all that it wants, as far as no other gets less for it; never more than the budget."""
    given = [0] * len(wanted)
    left, open_ = budget, len(wanted)
    for index in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        given[index] = min(wanted[index], left // open_)
        left -= given[index]
        open_ -= 1
    return given


def chosen(row: Row, room: int, low: int, high: int) -> Index:
    """Return which slices of a lane are drawn, in order.

    Args:
        row: the lane.
        room: for so many.
        low: ns, the left end of the timeline.
        high: ns, its right end.
    """
    every = np.arange(len(row)) if not len(row.depth) else np.flatnonzero(row.depth < LEVELS)
    if len(every) <= room:
        return every
    length = (row.end - row.start)[every]
    if row.kind == "idle":
        return every[np.sort(_longest(length, room))]
    parts = max(min(SPREAD, room // 4), 1)
    part = ((row.start[every] - low) / max(high - low, 1) * parts).astype(np.int64).clip(0, parts - 1)
    order = np.lexsort((-length, part))
    begins = np.searchsorted(part[order], np.arange(parts))
    place = np.empty(len(every), np.int64)
    place[order] = np.arange(len(every)) - begins[part[order]]
    picked = place < room // 2 // max(int(np.count_nonzero(np.bincount(part))), 1)
    others = np.flatnonzero(~picked)
    more = others[_longest(length[others], room - int(np.count_nonzero(picked)))]
    picked[more] = True
    return every[picked]


def covered(row: Row, low: int, high: int, parts: int) -> Floats:
    """Return the share of each of so many equal parts of [low, high) that the slices of a lane cover."""
    edges = low + (high - low) * np.arange(parts + 1, dtype=np.float64) / parts
    bounds = np.rint(edges).astype(np.int64)
    time = overlap(bounds[:-1], bounds[1:], union(row.start, row.end))
    return np.asarray(time / np.maximum(np.diff(bounds), 1), np.float32)


def _drawable(row: Row) -> int:
    every = len(row) if not len(row.depth) else int(np.count_nonzero(row.depth < LEVELS))
    return min(every, STEPS) if row.kind == "step" else every


def _longest(length: Ints, room: int) -> NDArray[np.intp]:
    """Return the indices of so many of the longest; of equal ones the first."""
    if room >= len(length):
        return np.arange(len(length))
    return np.argsort(-length, kind="stable")[:room]


def _timeline(sketch: Sketch, room: Sequence[int], parts: int) -> Timeline:
    low, high = sketch.bounds
    lanes = tuple(_lane(row, size, low, high, parts) for row, size in zip(sketch.rows, room, strict=True))
    note = " ".join((*sketch.notes, *_left_out(lanes)))
    return Timeline(sketch.title, sketch.file, sketch.rank, low, high, sketch.names, lanes, note, sketch.window)


def _lane(row: Row, room: int, low: int, high: int, parts: int) -> Lane:
    index = chosen(row, room, low, high)
    index = index[np.lexsort((-row.end[index], row.start[index]))]
    depth = row.depth[index].astype(np.uint8) if len(row.depth) else np.zeros(len(index), np.uint8)
    whole = len(index) == len(row)
    return Lane(
        title=row.title,
        kind=row.kind,
        start=row.start[index],
        end=row.end[index],
        name=row.name[index].astype(np.int32, copy=False),
        depth=depth,
        count=len(row) + row.hidden,
        covered=np.zeros(0, np.float32) if whole else covered(row, low, high, parts),
    )


def _left_out(lanes: Sequence[Lane]) -> list[str]:
    """Return a sentence that says how much is not drawn, with numbers; none where all is."""
    count, shown = sum(lane.count for lane in lanes), sum(map(len, lanes))
    if count == shown:
        return []
    gaps = [lane for lane in lanes if lane.kind == "idle"]
    few, all_ = sum(map(len, gaps)), sum(lane.count for lane in gaps)
    first = f"the {few:,} longest of {all_:,} idle stretches" if few < all_ else "all idle time"
    longest = f"{first}, of the other lanes the longest slices" if gaps else "the longest of each lane"
    said = f"{shown:,} of {count:,} slices are drawn: {longest}{_frames(lanes)}."
    return [f"{said} The bars of the overview count all."]


def _frames(lanes: Sequence[Lane]) -> str:
    return ", and no Python frames that only pass a call on" if any("(Python)" in lane.title for lane in lanes) else ""
