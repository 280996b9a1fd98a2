"""Which process is judged of a rank that has had several lives: a launcher starts ranks again after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from whyidle.model.evidence import Node, Record, StepLog

ENOUGH: Final = 10  # steps from which on the latest life is judged; of shorter ones that with most steps


def latest(logs: Sequence[StepLog], nodes: Sequence[Node]) -> tuple[tuple[StepLog, ...], list[str]]:
    """Return one log per rank, by rank, and what has to be told of the others.

    Of the lives of a rank the latest that trained for a while is judged, of all ranks at the same time. Those that do
    not tell a rank are different jobs: the one with most steps is judged, where no other tells a rank. One without any
    training stays only where none has.
    """
    wall = {node.name: node.wall - node.started if node.wall and node.started else None for node in nodes}
    logs = _once(logs)
    trained = sorted((log for log in logs if any(_steps(log))), key=lambda log: _began(log, wall))
    ranked: dict[int, list[StepLog]] = {}
    for log in trained:
        if log.process.rank is not None:
            ranked.setdefault(log.process.rank, []).append(log)
    if not ranked:
        alone = sorted(trained, key=_steps, reverse=True)
        return (_marked(alone[:1], trained) if alone else tuple(logs)), list(_others(alone))
    chosen = {rank: _worth(lives) for rank, lives in sorted(ranked.items())}
    told = []
    if any(len(lives) > 1 for lives in ranked.values()) and not any(map(_at_once, ranked.values())):
        chosen, gone = _of_one_attempt(ranked, chosen, wall)
        told = [f"rank {rank} trained only before the others started again: left out." for rank in gone]
    unranked = sum(1 for log in trained if log.process.rank is None)
    told = [*_restarts(ranked, chosen), *told]
    if unranked:
        noun = "process that trains and tells" if unranked == 1 else "processes that train and tell"
        told.append(f"{unranked} {noun} no rank: left out, since others tell theirs.")
    return _marked(list(chosen.values()), trained), told


def _once(logs: Sequence[StepLog]) -> list[StepLog]:
    """Return each process once: folders may be copied together with copies of them."""
    known: dict[tuple[str, int | None, int, int], StepLog] = {}
    for log in logs:
        first = int(log.start[0]) if len(log) else 0
        key = log.path.replace("\\", "/").rpartition("/")[2], log.process.rank, log.process.started, first
        known[key] = max(known.get(key, log), log, key=len)
    return list(known.values())


def _worth(lives: Sequence[StepLog]) -> StepLog:
    """Return which of the lives of a rank, in order, tells most of the job as it is now."""
    late = next((log for log in reversed(lives) if max(_steps(log)) >= ENOUGH), None)
    return late or max(reversed(lives), key=_steps)


def _of_one_attempt(
    ranked: Mapping[int, Sequence[StepLog]], chosen: Mapping[int, StepLog], wall: Mapping[str, int | None]
) -> tuple[dict[int, StepLog], list[int]]:
    """Return of each rank the life at the time of the latest that was chosen, and the ranks that had none then.

    Ranks are started again together, perhaps fewer or more of them; lives of different attempts are different jobs.
    """
    last = max(chosen.values(), key=lambda log: _began(log, wall))
    found: dict[int, StepLog] = {}
    gone: list[int] = []
    for rank, lives in ranked.items():
        beside = [log for log in lives if _shared(log, last, wall) > 0]
        known = _comparable(last, chosen[rank], wall)
        if beside or not known:
            found[rank] = max(beside, key=lambda log: _shared(log, last, wall)) if beside and known else chosen[rank]
        else:
            gone.append(rank)
    return dict(sorted(found.items())), sorted(gone)


def _shared(one: StepLog, other: StepLog, wall: Mapping[str, int | None]) -> int:
    """Return how long two processes trained at the same time, ns; not above 0 if they did not."""
    spans = [
        (_began(log, wall) - log.process.started + int(log.start[0]), int((log.start + log.duration).max()), log)
        for log in (one, other)
    ]
    ends = [end + _began(log, wall) - log.process.started for _, end, log in spans]
    return min(ends) - max(start for start, _, _ in spans)


def _comparable(one: StepLog, other: StepLog, wall: Mapping[str, int | None]) -> bool:
    """Say whether times of two processes can be compared: on one machine, or both know the time of day."""
    nodes = one.process.node, other.process.node
    return nodes[0] == nodes[1] or all(wall.get(node) is not None for node in nodes)


def _marked(judged: Sequence[StepLog], trained: Sequence[StepLog]) -> tuple[StepLog, ...]:
    """Return processes with a note on those that were not the first to train on their machine."""

    def later(log: StepLog) -> bool:
        before = (one for one in trained if one.process.node == log.process.node and all(one is not j for j in judged))
        return bool(log.process.restart) or any(one.process.started < log.process.started for one in before)

    return tuple(replace(log, later=later(log)) for log in judged)


def _began(log: StepLog, wall: Mapping[str, int | None]) -> int:
    """Return when a process began, in ns since 1970 as its machine's clock has it, where it knows."""
    return log.process.started + (wall.get(log.process.node) or 0)


def _steps(log: StepLog) -> tuple[int, ...]:
    """Return how much a process trained: its steps, and where there are none, what else it did."""
    kinds = (Record.STEP, Record.BACKWARD, Record.FORWARD, Record.BATCH)
    return tuple(int(np.count_nonzero(log.kind == kind)) for kind in kinds)


def _restarts(ranked: Mapping[int, list[StepLog]], chosen: Mapping[int, StepLog]) -> Iterator[str]:
    beside = [rank for rank, lives in ranked.items() if _at_once(lives)]
    if beside:
        yield (
            f"several processes train at the same time and say that they are rank {min(beside)}: they look like "
            f"different jobs, of which one is judged ({chosen[min(beside)].path})."
        )
        return
    again = {rank: len(lives) - 1 for rank, lives in ranked.items() if len(lives) > 1}
    if again:
        most = max(again.values())
        times = "once" if most == 1 else f"{most} times"
        whose = f"rank {min(again)}" if len(again) == 1 else f"{len(again)} of {len(ranked)} ranks"
        last = min(rank for rank in again if rank in chosen) if any(rank in chosen for rank in again) else min(chosen)
        ended = "last of its lives" if ranked[last][-1] is chosen[last] else "last of them that trained for a while"
        which = f"the {ended} is"
        yield f"{whose} started again {times}: {which} judged ({chosen[last].path})."


def _at_once(lives: Sequence[StepLog]) -> bool:
    """Say whether two lives on one machine overlap, as those of a rank that is started again never do."""
    return any(
        one.process.node == other.process.node and int((one.start + one.duration).max()) > int(other.start[0])
        for one, other in pairwise(lives)
    )


def _others(alone: Sequence[StepLog]) -> Iterator[str]:
    if len(alone) > 1:
        pids = ", ".join(str(log.process.pid) for log in alone[1:4])
        yield (
            f"{len(alone)} processes train and tell no rank: process {alone[0].process.pid} is judged, which has most "
            f"steps; not judged: {pids}{' and more' if len(alone) > 4 else ''}."
        )
