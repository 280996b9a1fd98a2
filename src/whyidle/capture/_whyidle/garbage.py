"""Garbage collections: COLLECT for those of at least 1 ms, which hold the job up."""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import Any

from _whyidle import hooks, record
from _whyidle.ring import COLLECT

LEAST = 1_000_000  # ns
_start = 0


def _collected(phase: str, info: dict[str, int]) -> None:
    """Python calls this before and after each collection; one is under way at a time."""
    global _start
    try:
        if phase == "start":
            _start = perf_counter_ns()
            return
        duration = perf_counter_ns() - _start
        if duration >= LEAST and _start:
            record.put(COLLECT, _start, duration, info.get("generation", 0))
    except Exception:  # the globals are gone: Python is about to end
        pass


def install(_torch: Any) -> None:
    """Have Python tell of collections."""
    if _collected not in gc.callbacks:
        gc.callbacks.append(_collected)
        hooks.on_restore(lambda: gc.callbacks.remove(_collected))
