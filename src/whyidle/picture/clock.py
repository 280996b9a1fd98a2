"""What 0 s is on charts and on timelines of logs: machines count from their start, other recordings since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Final

from whyidle.model.evidence import Curve, Node, StepLog

LATEST: Final = 253_402_300_799 * 10**9  # the last moment of year 9999, which is all that calendars know


@dataclass(frozen=True, slots=True)
class Zero:
    """The moment from which a recording's times are counted, on its own clock, and the charts that share it."""

    at: int  # ns
    said: str
    group: str


def of_run(nodes: Sequence[Node], curves: Sequence[Curve]) -> tuple[int | None, str]:
    """Return the zero of everything that tells when it was, ns since 1970, and what it is; None where nothing does."""
    starts = [node.wall for node in nodes if node.wall]
    if starts:
        return min(starts), f"start of the run, {_utc(min(starts))}"
    times = [int(one.time[0]) for curve in curves if curve.clock == "wall" for one in curve.series if len(one.time)]
    return (min(times), _utc(min(times))) if times else (None, "")


def of_node(node: Node, run: tuple[int | None, str]) -> Zero:
    """Return the zero on a machine's own clock."""
    at, said = run
    if at is None or not node.wall:
        return Zero(node.started, "start of the run", f"node {node.name}")
    return Zero(node.started - (node.wall - at), said, "run")


def of_log(log: StepLog, node: Node | None, run: tuple[int | None, str]) -> Zero:
    """Return the zero of a process that was watched, on its machine's clock."""
    return Zero(log.process.started, "start of the process", log.path) if node is None else of_node(node, run)


def of_curve(curve: Curve, run: tuple[int | None, str]) -> Zero:
    """Return the zero on a curve's own clock."""
    at, said = run
    if curve.clock == "wall" and at is not None:
        return Zero(at, said, "run")
    first = min((int(one.time[0]) for one in curve.series if len(one.time)), default=0)
    return Zero(first, f"start of {PurePath(curve.path).name}", curve.path)


def _utc(at: int) -> str:
    if not 0 <= at <= LATEST:
        return "start of the recording"
    return datetime.fromtimestamp(at // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
