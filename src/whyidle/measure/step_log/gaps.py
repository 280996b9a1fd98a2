"""What a training loop does that nothing records: its own code, told by what is known before and after it.

A place that must hold work that a job of this kind does, but of which no record was seen, is not named: the forward
pass of a model that is no module lies between a batch and the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log.phases import DATA, EVALUATION, FORWARD, NONE, OTHER, PREPARE, SAVE, neighbours, of_pieces
from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Record
from whyidle.model.finding import PHASES, Location
from whyidle.model.intervals import overlap
from whyidle.model.measurement import Measurement

BACKWARD, OPTIMIZER = PHASES.index("backward"), PHASES.index("optimizer")
START, ENVIRONMENT = PHASES.index("start"), PHASES.index("environment")
SEEN: Final = 0.5  # of the steps: with fewer forward passes the model runs where none was seen
MOST_DIGITS: Final = 9  # of the number of a line

NAMES: Final = {
    DATA: "batch",
    FORWARD: "forward pass",
    BACKWARD: "backward pass",
    OPTIMIZER: "Optimizer.step",
    SAVE: "checkpoint",
    EVALUATION: "evaluation",
    START: "epoch",
    ENVIRONMENT: "step of the environment",
}
BEFORE: Final = {DATA: "a", SAVE: "a", EVALUATION: "an", START: "the start of an"}

Place = tuple[int, int]  # phases of what is recorded before and after


def measure(w: Watch, taken_for_data: float = 0.0) -> Iterator[Measurement]:
    """Yield how much time of the loop is its own code, and where most of that lies.

    Args:
        w: the process.
        taken_for_data: the share of such time that is known to be a wait for data.
    """
    places = _places(w)
    for place in sorted(places, key=lambda place: -places[place]):
        if place[1] == FORWARD and taken_for_data > 0:
            less = min(taken_for_data, places[place])
            places[place] -= less
            taken_for_data -= less
    yield Measurement("host_gaps_share", sum(places.values()))
    known = {place: share for place, share in places.items() if share > 0 and not _holds_work(w, place)}
    if known:
        largest = max(known, key=lambda place: known[place])
        yield Measurement("host_gap_share", known[largest], locations=_line(w, largest))
        loads = largest[1] == FORWARD and DATA not in largest and not len(w.batches.index)
        yield Measurement("host_gap", _name(*largest) + (", where its batches may be made," if loads else ""))


def _places(w: Watch) -> dict[Place, float]:
    """Return the share of the watched time in which nothing is recorded, by place."""
    rows = w.rows
    filled = of_pieces(rows, w.phase)
    own = np.where(rows.piece_of >= 0, w.phase[rows.piece_of], NONE)
    closure = _in_closure(w)
    own[closure] = NONE
    gap = (own == NONE) & (np.isin(filled, (OTHER, PREPARE)) | closure)
    before, after = neighbours(own)
    length = overlap(rows.piece_start, rows.piece_end, w.window)
    found: dict[Place, float] = {}
    pairs = np.stack((before[gap], after[gap]), axis=1)
    unique, which = np.unique(pairs, axis=0, return_inverse=True)
    total = np.bincount(which.reshape(-1), weights=length[gap], minlength=len(unique))
    for (left, right), time in zip(unique.tolist(), total.tolist(), strict=True):
        if time > 0:
            found[int(left), int(right)] = float(time) / w.total
    return found


def _in_closure(w: Watch) -> NDArray[np.bool_]:
    """Say which pieces of an optimizer's step come before work of the model in it: code of its closure."""
    rows = w.rows
    inner = np.sort(rows.start[rows.of(Record.FORWARD, Record.BACKWARD, Record.BATCH) & rows.within(Record.STEP)])
    owner = np.maximum(rows.piece_of, 0)
    if not len(inner):
        return np.zeros(len(owner), np.bool_)
    following = np.append(inner, np.iinfo(np.int64).max)[np.searchsorted(inner, rows.piece_end)]
    of_step = (rows.piece_of >= 0) & (rows.kind[owner] == Record.STEP)
    return np.asarray(of_step & (following < rows.end[owner]))


def _holds_work(w: Watch, place: Place) -> bool:
    """Say whether the model may run at a place, since no record tells where else it does."""
    before, after = place
    rows = w.rows
    steps = len(w.steps.end)
    trains = rows.of(Record.STEP, Record.BACKWARD).any()
    forwards = np.count_nonzero(rows.of(Record.FORWARD) & (w.phase == FORWARD))
    if forwards < SEEN * steps:
        return not trains or (after in (BACKWARD, OPTIMIZER) and before != BACKWARD)
    return bool(trains and after == OPTIMIZER and not rows.of(Record.BACKWARD).any())


def _name(before: int, after: int) -> str:
    """Return a place in words: "between Optimizer.step and the next batch"."""
    if (before, after) == (DATA, START):
        return "between one epoch and the next"
    if before == after:
        return f"between one {NAMES.get(before, 'record')} and the next"
    return f"between {_noun(before)} and {'the next batch' if after == DATA else _noun(after)}"


def _noun(phase: int) -> str:
    name = NAMES.get(phase, "what comes before")
    return name if phase == OPTIMIZER else f"{BEFORE.get(phase, 'the')} {name}"


def _line(w: Watch, place: Place) -> tuple[Location, ...]:
    """Return the line at one end of a place, where it is known."""
    told = {fact.name: str(fact.value) for fact in w.log.facts if not fact.subject}
    loader = w.loader_settings
    for end, where in ((OPTIMIZER, told.get("optimizer_site", "")), (DATA, loader.where if loader else "")):
        file, _, line = where.rpartition(":")
        if end in place and file and line.isdecimal() and len(line) <= MOST_DIGITS:
            return (Location(file, int(line)),)
    return ()
