"""Keeps a collector going in a thread of its own, so that a counter that hangs or fails never holds up the job's end."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import Protocol, TypeVar

from whyidle.launch.process import Ended

PATIENCE_S = 30.0  # for the last words of a collector; a file system that hangs does not hold the job's exit code
ERRORS_KEPT = 3

T = TypeVar("T")


class Collector(Protocol):
    """What the recording asks of a collector."""

    def tick(self) -> None:
        """Take a sample of every counter and drain the rings."""

    def close(self, exit_code: int | None, signal: int | None) -> None:
        """Write down how the job ended, after a last tick."""


class Recording(threading.Thread):
    """Ticks at an interval until the job has ended.

    Args:
        make: makes the collector that is kept going; only here, so that the job need not wait for the GPU's driver.
        interval_s: seconds between the starts of two ticks.
        each: called after every tick, and once more in the end.
    """

    def __init__(self, make: Callable[[], Collector], interval_s: float, each: Callable[[], None]) -> None:
        super().__init__(name="whyidle recording", daemon=True)
        self.failures = 0
        self.errors: list[str] = []  # tracebacks of the first ones
        self._make = make
        self._interval_s = interval_s
        self._each = each
        self._ended: Ended | None = None
        self._over = threading.Event()

    def run(self) -> None:
        collector = self._try(self._make)
        if collector is None:
            return
        due = time.monotonic()
        while True:
            self._try(collector.tick)
            self._try(self._each)
            now = time.monotonic()
            due = max(due + self._interval_s, now)  # ticks that were missed are not made up for
            if self._over.wait(due - now):
                break
        ended = self._ended
        assert ended is not None
        self._try(lambda: collector.close(ended.exit_code, ended.signal))
        self._try(self._each)

    def end(self, ended: Ended) -> bool:
        """Write down how the job ended; return False if that takes longer than anybody waits for."""
        self._ended = ended
        self._over.set()
        self.join(PATIENCE_S)
        return not self.is_alive()

    def _try(self, work: Callable[[], T]) -> T | None:
        """Do what may fail without the job being told, since nobody but us suffers from it."""
        try:
            return work()
        except Exception:  # noqa: BLE001 - whatever goes wrong in a counter, the job and the other counters go on
            self.failures += 1
            if len(self.errors) < ERRORS_KEPT:
                self.errors.append(traceback.format_exc())
            return None
