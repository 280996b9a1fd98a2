"""The time, and waiting for it, which a key, Ctrl-C or the machine's service manager may end."""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import sys
import time
from collections.abc import Iterator
from typing import Protocol

QUIT = b"qQ\x04"


class Clock(Protocol):
    """What tells the time."""

    def now_s(self) -> float:
        """Return the time of a clock that only grows, in s."""

    def wall_ns(self) -> int:
        """Return ns since 1970."""

    def wait_until(self, due_s: float) -> bool:
        """Wait until then; return whether somebody wants to end."""


class Machine:
    """The machine's clock.

    Args:
        keys: a `q` on standard input ends the watch; the terminal is set to hand over single keys (`keyboard`).
    """

    def __init__(self, keys: bool = False) -> None:
        self._keys = keys

    def now_s(self) -> float:
        return time.monotonic()

    def wall_ns(self) -> int:
        return time.time_ns()

    def wait_until(self, due_s: float) -> bool:
        while (left := due_s - time.monotonic()) > 0:
            if not self._keys:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0]:
                keys = os.read(sys.stdin.fileno(), 64)  # all that were pressed: Python's own buffer hides some
                self._keys = keys != b""  # its other end is gone
                if any(key in QUIT for key in keys):
                    return True
        return False


def after(due_s: float, interval_s: float, now_s: float) -> float:
    """Return the next moment of a regular series that is not over yet: what was missed is not made up for."""
    return due_s + interval_s * ((now_s - due_s) // interval_s + 1)


@contextlib.contextmanager
def keyboard(wanted: bool) -> Iterator[bool]:
    """Let single keys through while the table is shown; yield whether that is so.

    Only where standard input is a terminal that we may read: a background job would be stopped for it.
    """
    try:
        termios, tty = importlib.import_module("termios"), importlib.import_module("tty")
        number = sys.stdin.fileno()
        foreground = wanted and sys.stdin.isatty() and os.tcgetpgrp(number) == os.getpgrp()
        before = termios.tcgetattr(number) if foreground else None
    except (ImportError, OSError, ValueError, AttributeError):  # Windows; closed, or none
        before = None
    if before is None:
        yield False
        return
    tty.setcbreak(number)
    try:
        yield True
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
