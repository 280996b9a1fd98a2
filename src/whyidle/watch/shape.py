"""What the curves of the last minutes look like, now and then, beside the watch: the same judgement as of a file."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from whyidle.model.evidence import Curve, Fact, Run, Series
from whyidle.watch.board import Board, Status
from whyidle.watch.reading import Gpu
from whyidle.watch.window import Window

EVERY_S = 60.0  # it takes about as much CPU as a minute of samples
LEAST_SAMPLES = 120  # of a GPU; shorter curves have no shape that can be believed
SAID = 3  # candidates that are named
LAGS = "curve.lagging_gpu"


class Shapes:
    """Judges the curves of GPUs that wait, in a thread; there is one at most.

    Args:
        board: that is asked, and told.
        node: the host.
    """

    def __init__(self, board: Board, node: str) -> None:
        self._board = board
        self._node = node
        self._next_s: float | None = None
        self._thread: threading.Thread | None = None

    def tick(self, now_s: float) -> None:
        """Begin to judge, where it is time to and there is something to explain."""
        if self._next_s is None:
            self._next_s = now_s + EVERY_S
        if now_s < self._next_s or (self._thread is not None and self._thread.is_alive()):
            return
        self._next_s = now_s + EVERY_S
        watched = self._board.windows()
        curves = [
            (group, Curve("", "nvml", tuple(self._series(group, watched)), facts=tuple(facts(group, self._node))))
            for group in groups(self._board.status())
            if any(len(watched[gpu.key]) >= LEAST_SAMPLES for gpu in group)
        ]

        def work() -> None:
            found = [(group, judged(curve)) for group, curve in curves]
            self._board.hints = {
                gpu.key: hints[gpu.index] for group, hints in found for gpu in group if gpu.index in hints
            }

        if not curves:
            self._board.hints = {}
            return
        self._thread = threading.Thread(target=work, name="whyidle shapes", daemon=True)
        self._thread.start()

    def _series(self, group: Iterable[Gpu], watched: Mapping[str, Window]) -> Iterator[Series]:
        for gpu in group:
            yield from watched[gpu.key].series(self._node, gpu.index)


def groups(statuses: Sequence[Status]) -> list[list[Gpu]]:
    """Return the GPUs of each job of which one waits; where jobs cannot be seen, each GPU alone."""
    together: dict[object, list[Status]] = {}
    for one in statuses:
        key = tuple(job.key for job in one.jobs) if one.jobs else one.gpu.key
        together.setdefault(key, []).append(one)
    return [
        [one.gpu for one in group] for group in together.values() if any(one.verdict.kind == "waits" for one in group)
    ]


def facts(gpus: list[Gpu], node: str) -> list[Fact]:
    """Return what a curve's reader says of its GPUs."""
    found = []
    for gpu in gpus:
        told = {
            "name": gpu.name or None,
            "memory_bytes": gpu.memory_bytes,
            "power_limit_w": gpu.power_limit_w,
            "sm_clock_max_mhz": gpu.sm_clock_max_mhz,
        }
        subject = f"{node} gpu {gpu.index}".strip()
        found += [Fact(name, value, "NVML", subject) for name, value in told.items() if value is not None]
    return found


def judged(curve: Curve) -> Mapping[int, str]:
    """Return the first finding of each GPU for a person: that on one which lags is of that one, others are of all."""
    judge = importlib.import_module("whyidle.judge").judge  # heavy, and not needed before
    report: Any = judge(Run(curves=(curve,)), predict=False)
    every = {one.device for one in curve.series if one.device is not None}
    hints: dict[int, str] = {}
    for finding in report.findings:
        if not finding.rule.startswith("curve."):
            continue
        causes = ", ".join(finding.candidates[:SAID])
        text = f"{finding.message} Candidates: {causes}." if causes else finding.message
        places = {place.device for place in finding.locations if place.device is not None}
        for device in places if finding.rule == LAGS else every:
            hints.setdefault(device, text)
    return hints
