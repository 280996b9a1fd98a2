"""What the curves of the last minutes look like, now and then, beside the watch: the same judgement as of a file."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from typing import Any

from whyidle.model.evidence import Curve, Fact, Run
from whyidle.watch.board import Board
from whyidle.watch.reading import Gpu

EVERY_S = 60.0  # it takes about as much CPU as a minute of samples
LEAST_SAMPLES = 120  # of a GPU; shorter curves have no shape that can be believed
SAID = 3  # candidates that are named


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
        waits = {one.gpu.index for one in self._board.status() if one.verdict.kind == "waits"}
        watched = self._board.windows()
        if not waits or all(len(watched[index][1]) < LEAST_SAMPLES for index in waits):
            self._board.hints = {}
            return
        gpus = [gpu for gpu, _ in watched.values()]
        series = tuple(one for index, (_, window) in watched.items() for one in window.series(self._node, index))
        curve = Curve("", "nvml", series, facts=tuple(facts(gpus, self._node)))

        def work() -> None:
            self._board.hints = judged(curve)

        self._thread = threading.Thread(target=work, name="whyidle shapes", daemon=True)
        self._thread.start()


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
    """Return the first finding of each GPU for a person; one that names no GPU is of all."""
    judge = importlib.import_module("whyidle.judge").judge  # heavy, and not needed before
    report: Any = judge(Run(curves=(curve,)), predict=False)
    every = {one.device for one in curve.series if one.device is not None}
    hints: dict[int, str] = {}
    for finding in report.findings:
        if not finding.rule.startswith("curve."):
            continue
        causes = ", ".join(finding.candidates[:SAID])
        text = f"{finding.message} Candidates: {causes}." if causes else finding.message
        for device in {place.device for place in finding.locations if place.device is not None} or every:
            hints.setdefault(device, text)
    return hints
