"""Which process is judged of a rank that has had several lives: a launcher starts ranks again after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from whyidle.model.evidence import Node, Record, StepLog

TRAINED: Final = 2  # steps from which on a life is worth judging


def latest(logs: Sequence[StepLog], nodes: Sequence[Node]) -> tuple[tuple[StepLog, ...], list[str]]:
    """Return one log per rank, by rank, and what has to be told of the others.

    Of the lives of a rank the latest that trained is judged. Processes that do not tell a rank are different jobs:
    the one with most steps is judged, where no other tells a rank. One without any training stays only where none has.
    """
    wall = {node.name: node.wall - node.started for node in nodes}
    trained = [log for log in logs if _steps(log)]
    ranked: dict[int, list[StepLog]] = {}
    for log in sorted(trained, key=lambda log: _began(log, wall)):
        if log.process.rank is not None:
            ranked.setdefault(log.process.rank, []).append(log)
    if not ranked:
        alone = sorted(trained, key=lambda log: (-_steps(log), _began(log, wall)))
        return (tuple(alone[:1]) if alone else tuple(logs)), list(_others(alone))
    chosen = {
        rank: next((log for log in reversed(lives) if _steps(log) >= TRAINED), lives[-1])
        for rank, lives in sorted(ranked.items())
    }
    unranked = sum(1 for log in trained if log.process.rank is None)
    told = list(_restarts(ranked, chosen))
    if unranked:
        noun = "process that trains and tells" if unranked == 1 else "processes that train and tell"
        told.append(f"{unranked} {noun} no rank: left out, since others tell theirs.")
    return tuple(chosen.values()), told


def _began(log: StepLog, wall: Mapping[str, int]) -> int:
    """Return when a process began, in ns since 1970 as its machine's clock has it."""
    return log.process.started + wall.get(log.process.node, 0)


def _steps(log: StepLog) -> int:
    """Return about how much a process trained, or at least computed."""
    steps = np.isin(log.kind, (Record.STEP, Record.BACKWARD, Record.FORWARD, Record.BATCH))
    return int(np.count_nonzero(log.kind == Record.STEP)) or int(steps.any())


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
        last = min(again)
        which = "the last of its lives is" if ranked[last][-1] is chosen[last] else "the last of them that trained is"
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
