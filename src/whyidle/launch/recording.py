"""Keeps a collector beside a job in a thread of its own: whatever hangs or fails there, the job ends as it would."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from whyidle.launch.process import Ended

PATIENCE_S = 20.0  # for the last words of a collector: a file system that hangs does not hold the job's exit code
REST_S = 1.0  # between two ticks where the collector cannot say
LEAST_REST_S = 0.01
ERRORS_KEPT = 3


class Collector(Protocol):
    """What the recording asks of a collector; `collect.Collector` is one."""

    def start(self) -> None:
        """Write down what is known at the beginning."""

    def tick(self) -> None:
        """Take the samples that are due, and drain the rings."""

    def remaining_s(self) -> float:
        """Return for how long nothing is due, in s."""

    def close(self, exit_code: int | None, signal: int | None) -> None:
        """Drain the rings a last time, and write down how the job ended."""


class Recording(threading.Thread):
    """Makes a collector, lets it go on until the job has ended, and closes it.

    Args:
        make: makes the collector; only in this thread, so that the job need not wait for the GPU's driver.
        each: called after every tick, and once more in the end.
    """

    def __init__(self, make: Callable[[], Collector], each: Callable[[], None]) -> None:
        super().__init__(name="whyidle-recording", daemon=True)
        self.failures = 0
        self.errors: list[str] = []  # tracebacks of the first ones
        self._make = make
        self._each = each
        self._ended: Ended | None = None
        self._over = threading.Event()
        self._made: Collector | None = None
        self._rest_s = REST_S

    def run(self) -> None:
        before = threading.excepthook
        threading.excepthook = self._uncaught  # an error in a thread of the collector is none of the job's output
        try:
            self._try(self._begin)
            while not self._over.wait(self._rest_s):
                self._try(self._tick)
                self._try(self._each)
            self._try(self._close)
            self._try(self._each)
        finally:
            threading.excepthook = before

    def end(self, ended: Ended) -> bool:
        """Write down how the job ended; return False if that takes longer than anybody waits for."""
        self._ended = ended
        self._over.set()
        self.join(PATIENCE_S)
        return not self.is_alive()

    def _begin(self) -> None:
        self._made = self._make()
        self._made.start()
        self._tick()

    def _tick(self) -> None:
        self._rest_s = REST_S
        if self._made is not None:
            self._made.tick()
            self._rest_s = max(LEAST_REST_S, self._made.remaining_s())

    def _close(self) -> None:
        assert self._ended is not None
        if self._made is not None:
            self._made.close(self._ended.exit_code, self._ended.signal)

    def _try(self, work: Callable[[], None]) -> None:
        """Do what may fail without the job being told, since nobody but us suffers from it."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong beside the job, the job goes on
            self._note(error, error.__traceback__)

    def _uncaught(self, failed: threading.ExceptHookArgs) -> None:
        self._note(failed.exc_value, failed.exc_traceback)

    def _note(self, error: BaseException | None, trace: TracebackType | None) -> None:
        self.failures += 1
        if error is not None and len(self.errors) < ERRORS_KEPT:
            self.errors.append("".join(traceback.format_exception(type(error), error, trace)))
