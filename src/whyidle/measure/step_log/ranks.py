"""What the ranks of a job are to each other: whether they wait for each other in every step, and for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from whyidle.measure.step_log import period
from whyidle.measure.step_log.time import loader_place
from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Node, StepLog
from whyidle.model.intervals import NOTHING, Intervals, union
from whyidle.model.measurement import Measurement

HALF: Final = 0.5  # of the way from the shortest wait to the longest: ranks beyond it are the late ones
ALIKE: Final = 0.1  # of the longest: mean steps of ranks that wait for each other differ by less


def held_up(logs: Sequence[StepLog], nodes: Mapping[str, Node]) -> list[Intervals]:
    """Return for each process when we held up any of the others, in its machine's time: then it waited for them."""
    if len(logs) < 2:
        return [NOTHING for _ in logs]
    to_wall = [_offset(nodes.get(log.process.node)) for log in logs]
    found = [
        (np.array(parts, np.int64).reshape(-1, 2) + offset)
        for parts, offset in zip(map(period.held_up, logs), to_wall, strict=True)
    ]
    whole = np.concatenate(found)
    return [union(whole[:, 0] - offset, np.maximum(whole[:, 1], whole[:, 0] + 1) - offset) for offset in to_wall]


def _offset(node: Node | None) -> int:
    """Return what turns times of a machine into ns since 1970, as its clock has it; 0 where that is not known."""
    return node.wall - node.started if node is not None and node.wall and node.started else 0


def in_step(watches: Sequence[Watch]) -> bool:
    """Say whether ranks take their steps together: then what one of them waits for, all wait for."""
    if len(watches) < 2 or any((w.log.process.world_size or 1) < 2 for w in watches):
        return False
    means = [w.total / w.count for w in watches]
    return max(means) - min(means) <= ALIKE * max(means)


def waits(w: Watch, measured: Sequence[Measurement]) -> float:
    """Return how much of its time a rank loses in waits and in code of its loop, for which others wait as well.

    Where it is not known what it loses, how much it waits for data.
    """
    lost = {m.name: float(m.value) for m in measured if m.name.startswith("lost_") and not m.subject}
    known = {"lost_data_workers_share", "lost_data_other_share"} <= lost.keys()
    own = next((float(m.value) for m in measured if m.name == "host_gap_share"), 0.0)
    return own + (sum(lost.values()) if known else w.shares["data"])


def late(of_ranks: Sequence[tuple[Watch, list[Measurement]]]) -> Iterator[Measurement]:
    """Yield how much longer some ranks wait for data than the others, which wait for them elsewhere meanwhile."""
    watches = [w for w, _ in of_ranks]
    lost = [{m.name: float(m.value) for m in measured if m.name.startswith("lost_data_")} for _, measured in of_ranks]
    if not in_step(watches) or any("lost_data_workers_share" not in of for of in lost):
        return
    data = [sum(of.values()) for of in lost]
    limit = min(data) + HALF * (max(data) - min(data))
    others = [wait for wait in data if wait < limit]
    if not others:
        yield Measurement("late_loader_share", 0.0)
        return
    slowest = watches[data.index(max(data))]
    ranks = sorted(w.log.process.rank or 0 for w, wait in zip(watches, data, strict=True) if wait >= limit)
    yield Measurement("late_loader_share", max(data) - max(others), locations=loader_place(slowest))
    yield Measurement("late_loader_ranks", ", ".join(map(str, ranks)))
