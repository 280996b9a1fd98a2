"""How long the device waited while the host waited: events around each wait, read later and never waited for.

While the host is in a DataLoader's `next()` or writes a checkpoint it gives the device nothing to do. The device
reaches the event before the wait when its queue is empty, and the event after it when the wait is over: the time
between is what it stood idle, and short where it still had work.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from typing import Any

from _whyidle import hooks, record

GPU = 10  # kind of record
MOST_PENDING = 64  # pairs of events that the device has not reached; a wait beyond them is not timed
MOST_PARAMETERS = 20_000  # looked at once, to see that the model is on one device

Pair = tuple[Any, Any]  # events before and after a wait


class Clock:
    """Times waits on the device and stream on which the training thread last stepped an optimizer."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._thread = 0
        self._device: Any = None
        self._stream: Any = None
        # optimizer -> its device, None where that is none or several
        self._known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._elsewhere: Any = None  # weak reference to an optimizer that is on no one device
        self._free: dict[Any, list[Pair]] = {}  # by device: an event stays with the one that first recorded it
        self._made = 0
        self._broken = False
        self._pending: deque[tuple[Pair, Any, int, int]] = deque()  # events, device, start in ns, sequence of the wait

    def step(self, _count: int, optimizer: Any) -> bool | None:
        """Note where the training runs, and read the events that the device has reached."""
        if self._elsewhere is not None and self._elsewhere() is optimizer:
            return None
        if self._broken:
            return False
        try:
            if optimizer not in self._known:
                self._known[optimizer] = self._only_device(optimizer)
            device = self._known[optimizer]
            if device is None:
                self._elsewhere = weakref.ref(optimizer)
                return None
            if capturing(self._torch, device):
                return None
            if self._device is None:  # not before: the waits of a job without a device cost nothing
                hooks.waits.append((self.before, self.after))
            self._thread = threading.get_ident()
            self._stream = current_stream(self._torch, device)
            self._device = device
            self.read()
        except Exception:
            self.forget()
            raise
        return None

    def before(self, _kind: int) -> Any:
        """Put an event before a wait. Returns what `after` needs, None where this wait is not timed."""
        if self._device is None or threading.get_ident() != self._thread or capturing(self._torch, self._device):
            return None
        try:
            self.read()
            free = self._free.setdefault(self._device, [])
            if not free and self._made >= MOST_PENDING:
                return None
            pair = free.pop() if free else self._pair()
            start = time.perf_counter_ns()
            pair[0].record(self._stream)
        except Exception:
            self.forget()
            raise
        return pair, self._device, self._stream, start

    def after(self, token: Any, sequence: int) -> None:
        """Put an event after a wait."""
        if token is None or self._broken:
            return
        pair, device, stream, start = token
        if sequence < 0 or capturing(self._torch, device):
            self._free[device].append(pair)
            return
        try:
            pair[1].record(stream)
        except Exception:
            self.forget()
            raise
        self._pending.append((pair, device, start, sequence))

    def read(self) -> None:
        """Record the waits whose events the device has reached."""
        while self._pending and self._pending[0][0][1].query():
            pair, device, start, sequence = self._pending.popleft()
            record.put(GPU, start, int(pair[0].elapsed_time(pair[1]) * 1e6), sequence)
            self._free[device].append(pair)

    def forget(self) -> None:
        """Time nothing any more: the device failed, or this is a forked child, which cannot use its parent's.

        The events stay where they are: to destroy them is a call to the driver, too.
        """
        self._device = None
        self._broken = True

    def _only_device(self, optimizer: Any) -> Any:
        """Return the accelerator on which all parameters of an optimizer are; None where there is no such."""
        devices = set()
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group.get("params", ())[:MOST_PARAMETERS]:
                devices.add(parameter.device)
                if len(devices) > 1:
                    return None
        device = devices.pop() if devices else None
        return None if device is None or device.type in ("cpu", "meta") or not self._timed(device) else device

    def _timed(self, device: Any) -> bool:
        if device.type == "cuda":
            return bool(self._torch.cuda.is_initialized())
        return hasattr(self._torch, "accelerator") and hasattr(self._torch, "Event")

    def _pair(self) -> Pair:
        self._made += 1
        if self._device.type == "cuda":
            event = self._torch.cuda.Event
            return event(enable_timing=True), event(enable_timing=True)
        event = self._torch.Event
        return event(self._device, enable_timing=True), event(self._device, enable_timing=True)


def capturing(torch: Any, device: Any) -> bool:
    """Return whether a CUDA graph is being captured, during which what we ask of the device would join or break it."""
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())


def current_stream(torch: Any, device: Any) -> Any:
    """Return the stream of a device on which this thread works."""
    return (torch.cuda if device.type == "cuda" else torch.accelerator).current_stream(device)


def install(torch: Any) -> None:
    """Time the waits of this process, once its optimizer is seen to work on an accelerator."""
    clock = Clock(torch)
    hooks.after_step(clock.step)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=clock.forget)
