"""What the model lost in each backward pass: LOSS, where it was asked for.

A loss in the host's memory is read there. One on a device is copied to pinned memory, behind what computes it and
before the pass itself, and read when an event behind the copy has come by: the host never waits for it. What a
gradient scaler multiplied the loss by is copied in the same way, and divided out when both are there.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
from collections import deque
from typing import Any

from _whyidle import facts, gpu, hooks, record, scaler
from _whyidle.ring import LOSS

SCALED = 1  # flag: multiplied by a gradient scaler, nobody knows by what
LARGE = 1e30  # no loss is as large: what is infinite only above it, was so before it was multiplied
MOST_PENDING = 64  # copies that are under way; a loss beyond them is not recorded


class Pinned:
    """Numbers of one type in pinned memory, each of which is in use or free."""

    def __init__(self, torch: Any, dtype: Any) -> None:
        # once per type of loss: to pin memory takes the driver a moment, in which the device may have to be still
        self.memory = torch.empty(MOST_PENDING, dtype=dtype, device="cpu", pin_memory=True)
        self.free = list(range(MOST_PENDING))

    def copy(self, value: Any) -> int:
        """Have a number of the device copied here some time; returns to which place."""
        place = self.free.pop()
        self.memory[place : place + 1].copy_(value.reshape(1), non_blocking=True)
        return place

    def take(self, place: int) -> float:
        """Return a number that has arrived, and let go of its place."""
        self.free.append(place)
        return float(self.memory[place].item())


class Losses:
    """Reads the loss that a backward pass begins with."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        # modes of the job do not see what we do
        self._plain = getattr(torch._C, "DisableTorchFunction", contextlib.nullcontext)
        self._modes = getattr(torch._C, "_len_torch_dispatch_stack", int)
        self._pinned: dict[Any, Pinned] = {}  # by type
        self._events: dict[Any, list[Any]] = {}  # by device
        # start in ns, event, device, where the loss and its scale, if it has one, are copied to, flags, its type's most
        self._pending: deque[tuple[int, Any, Any, list[tuple[Pinned, int]], int, float]] = deque()
        self._left: Any = None
        self._broken = False

    def backward(self, start: int, args: Any, kwargs: Any) -> bool | None:
        """Record the loss of a backward pass, or see to it that it will be."""
        if self._broken:
            return False
        root = args[0] if args else kwargs.get("tensors")
        given = args[1] if len(args) > 1 else kwargs.get("grad_tensors")
        if isinstance(root, (list, tuple)) and len(root) == 1:
            root = root[0]
        # no loss: several roots, or one with a gradient; no plain number: a tensor of another kind, or a mode above it
        if given is not None or type(root) is not self._torch.Tensor or self._modes():
            return None
        with self._plain():
            if root.numel() == 1 and root.is_floating_point() and root.device.type != "meta":
                self._note(start, root)
        return None

    def _note(self, start: int, root: Any) -> None:
        """Record a loss that is here; have one copied that is not."""
        scale = scaler.scale_of(root)
        flags = SCALED if scale is ... else 0
        values = [root.detach()] if scale is ... or scale is None else [root.detach(), scale.detach()]
        devices = {value.device for value in values}
        if all(device.type == "cpu" for device in devices):
            _put(start, [float(value.item()) for value in values], flags, self._torch.finfo(root.dtype).max)
        elif len(devices) == 1:
            self._later(start, values, flags)

    def step(self, _count: int, _optimizer: Any) -> bool | None:
        """Read what has arrived."""
        if self._broken:
            return False
        if self._pending and not gpu.capturing(self._torch, self._pending[0][2]):
            self.read()
        return None

    def read(self) -> None:
        """Record the losses that have arrived; in their order, and without waiting for the next."""
        try:
            while self._pending and self._pending[0][1].query():
                start, event, device, copies, flags, most = self._pending.popleft()
                self._events[device].append(event)
                _put(start, [pinned.take(place) for pinned, place in copies], flags, most)
        except Exception:
            self.forget()
            raise

    def forget(self) -> None:
        """Read nothing any more: the device failed."""
        self._broken = True

    def begin_again(self) -> None:
        """Leave what the parent of a forked child had of the device as it is: to destroy it is a call to the driver."""
        self._left = self._pinned, self._events, self._pending
        self._pinned, self._events, self._pending = {}, {}, deque()

    def _later(self, start: int, values: list[Any], flags: int) -> None:
        """Have numbers copied from their device, and note when that is done."""
        device = values[0].device
        if gpu.capturing(self._torch, device):  # a copy of ours would become part of the graph
            return
        self.read()
        if len(self._pending) >= MOST_PENDING // 2:  # a loss and its scale may share a type
            return
        try:
            # Nothing is held until it is copied: work of this stream that comes after cannot overtake the copy, and
            # the output of a graph (torch.compile, reduce-overhead) that somebody holds has to be captured again.
            memories = [(self._memory(value.dtype), value) for value in values]
            copies = [(pinned, pinned.copy(value)) for pinned, value in memories]
            events = self._events.setdefault(device, [])
            event = events.pop() if events else self._event(device)
            event.record(gpu.current_stream(self._torch, device))
        except Exception:
            self.forget()
            raise
        most = self._torch.finfo(values[0].dtype).max
        self._pending.append((start, event, device, copies, flags, most))

    def _memory(self, dtype: Any) -> Pinned:
        if dtype not in self._pinned:
            self._pinned[dtype] = Pinned(self._torch, dtype)
        return self._pinned[dtype]

    def _event(self, device: Any) -> Any:
        return self._torch.cuda.Event() if device.type == "cuda" else self._torch.Event(device)


def _put(start: int, values: list[float], flags: int, most: float) -> None:
    """Record a loss, divided by its scale where there is one.

    What a scale made infinite may have been finite: then it is not known. Of float16, that is; the largest number of
    other types (`most`) is so large that the loss was infinite by itself.
    """
    loss = values[0]
    if len(values) > 1:
        scale = values[1]
        if not scale or (math.isinf(loss) and most < LARGE * scale):
            flags |= SCALED
        loss = loss / scale if scale else loss
    (bits,) = struct.unpack("<q", struct.pack("<d", loss))
    record.put(LOSS, start, 0, bits, flags)


def install(torch: Any) -> None:
    """Record losses."""
    losses = Losses(torch)
    hooks.before_backward(losses.backward)
    hooks.after_step(losses.step)
    facts.at_end(losses.read)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=losses.begin_again)
