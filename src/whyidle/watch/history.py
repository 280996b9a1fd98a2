"""What a watch saw as a whole, for its report; alarms are kept up to a number, the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from whyidle.model.watch_history import WatchedGpu, WatchEvent, WatchHistory
from whyidle.watch.asked import Asked
from whyidle.watch.board import Board, Status
from whyidle.watch.jobs import Job
from whyidle.watch.report import usd_per_hour
from whyidle.watch.verdict import FINE

MOST_EVENTS = 200


class Events:
    """The last alarms."""

    def __init__(self) -> None:
        self._kept: deque[tuple[WatchEvent, Mapping[str, Any]]] = deque(maxlen=MOST_EVENTS)
        self._count = 0

    def add(self, wall_ns: int, gpu: int, told: Mapping[str, Any]) -> None:
        """Take one, as it was told."""
        self._kept.append((WatchEvent(wall_ns, gpu, str(told["event"]), str(told["text"])), told))
        self._count += 1

    @property
    def events(self) -> tuple[WatchEvent, ...]:
        """Return them, oldest first."""
        return tuple(event for event, _ in self._kept)

    @property
    def told(self) -> list[Mapping[str, Any]]:
        """Return them as programs are told."""
        return [told for _, told in self._kept]

    @property
    def forgotten(self) -> int:
        """Return how many there were before these."""
        return self._count - len(self._kept)


def history_of(
    board: Board,
    statuses: Sequence[Status],
    events: Events,
    asked: Asked,
    everything: Mapping[str, Any],
    summary: str,
    begin: tuple[float, int],
    end: tuple[float, int],
) -> WatchHistory:
    """Return the whole.

    Args:
        board: the GPUs.
        statuses: what is said of each at the end.
        events: alarms.
        asked: the options.
        everything: for programs.
        summary: what came of it, on a line.
        begin: when it began: by a clock that only grows, in s, and ns since 1970.
        end: when it ended, the same.
    """
    host = str(everything["host"])
    gpus = tuple(_gpu(one, board, host) for one in statuses)
    return WatchHistory(
        host=host,
        source=str(everything["source"]),
        state=board.state,
        start_ns=begin[1],
        end_ns=end[1],
        watched_s=end[0] - begin[0],
        summary=summary,
        usd_per_hour=usd_per_hour(statuses),
        price_file=asked.price_file,
        alarming=asked.alarming,
        gpus=gpus,
        events=events.events,
        forgotten=events.forgotten,
        told={**everything, "watched_s": round(end[0] - begin[0], 3), "summary": summary, "events": events.told},
    )


def _gpu(status: Status, board: Board, host: str) -> WatchedGpu:
    window, course = board.windows()[status.gpu.key], board.courses()[status.gpu.key]
    jobs = None if status.jobs is None else tuple(map(_job, status.jobs))
    return WatchedGpu(
        status.gpu.index,
        status.gpu.name,
        status.verdict.kind,
        status.verdict.kind in FINE,
        status.verdict.text,
        status.hint,
        jobs,
        status.spent.known_s,
        status.spent.idle_s,
        status.spent.unknown_s,
        status.spent.idle_usd,
        course.utilization(),
        window.series(host, status.gpu.index),
    )


def _job(job: Job) -> str:
    pids = f"PID {', '.join(map(str, job.pids))}"
    return f"{job.name} ({pids})" if job.name else pids
