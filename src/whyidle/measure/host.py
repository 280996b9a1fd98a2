"""What host threads were doing: which of them drive the GPU, and the slices that stand for each cause of idle time.

A cause is a set of slices, found by name, by what a call launched, or by the operator around it. Which idle time
falls into which set is attribution.py's question.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from whyidle.measure import names
from whyidle.measure.rows import Index, Mask, distinct, together, without
from whyidle.measure.timeline import Timeline
from whyidle.model.evidence import Kind
from whyidle.model.intervals import NOTHING, Intervals, clip, containing, union

# ns: a driver call that takes this long with the GPU idle is a first use: code is loaded or compiled (CUDA loads
# lazily), an autotuner runs. Launches take 2-30 us in the recordings that we have.
FIRST_USE = 1_000_000
MANY_STEPS = 3  # judgement: of fewer, "more than half" tells no habit
# A thread that launches a tenth of a device's work drives it; prefetchers and loggers launch a copy or two per step.
# Where two threads launch, the lesser makes 32-45% of the launches in the recordings that we have; the limit is a
# judgement.
MAIN_SHARE = 10
MOST = 0.9  # of the window: what covers that much is the job itself (judgement)
# Of a thread's operators: on the threads that autograd launches from 65% and more are named as its nodes' in the
# recordings that we have, on others at most 0.2%.
ENGINE_SHARE = 0.5


class HostCauses:
    """What host threads were doing, as sets of time by thread and cause: the part of attribution all devices share."""

    # In order of priority; what is left is python, or unknown where operators were not recorded. The profiler's own
    # work comes first: what the program would have done in its place nobody knows.
    ORDER = (
        "unknown", "data_wait", "checkpoint", "evaluation", "logging", "sync_return", "allocator", "h2d_prep", "gc",
        "compile", "optimizer_host", "autograd_host", "dispatch",
    )  # fmt: skip

    def __init__(self, t: Timeline) -> None:
        self.t = t
        self._sets: dict[tuple[int, str], Intervals] = {}
        self._between: dict[tuple[int, ...], Intervals] = {}

    def spans(self, thread: int, cause: str) -> Intervals:
        """Return when this thread was busy with this cause."""
        key = thread, cause
        if key not in self._sets:
            index = self.slices[cause]
            # the profiler notes its own work on a thread of its own, whomever it holds up
            mine = (self.t.host.thread[index] == thread) | (self.t.host.kind[index] == Kind.OVERHEAD)
            self._sets[key] = self.t.spans(index[mine])
        return self._sets[key]

    def crew(self, launched: Index) -> list[int]:
        """Return the threads that drive a device, the main one first; `launched` are the calls that launched its work.

        The main thread marks the steps and launches, or launches most of what the backward pass does not. The thread
        that marks the steps feeds it, where that is another (nn.DataParallel); autograd's threads work on its behalf
        while it waits. Others, that copy ahead or log, do not: what they do holds up nobody.
        """
        h = self.t.host
        backward = distinct(h.thread[self.in_backward])
        count = np.bincount(h.thread[launched], minlength=len(self.t.trace.threads))
        steps = self.t.host_like(names.PROFILER_STEP, Kind.RANGE)
        if len(steps) and count[h.thread[steps[0]]] * MAIN_SHARE >= count.sum():
            main = int(h.thread[steps[0]])
        else:
            forward = count.copy()
            forward[backward] = 0
            main = int(np.argmax(forward if forward.any() else count))
        marking = [int(h.thread[steps[0]])] if len(steps) else []
        return list(dict.fromkeys([main, *marking, *map(int, backward)]))

    @cached_property
    def slices(self) -> dict[str, Index]:
        """Return the host slices that stand for each cause."""
        t = self.t
        ranges = (Kind.RANGE, Kind.PYTHON)
        load = np.concatenate((t.host_like(names.LOADER, *ranges), t.host_like(names.DATA_RANGE, Kind.RANGE)))
        backward = (t.host.kind == Kind.OP) & (self.in_backward | np.isin(t.host.thread, self.engines))
        forward = (t.host.kind == Kind.OP) & ~backward
        return {
            "data_wait": np.sort(load),
            "checkpoint": t.host_like(names.CHECKPOINT, *ranges),
            "evaluation": self.evaluation,
            "logging": t.host_like(names.LOGGING, *ranges),
            "sync_return": self.blocking,
            "allocator": t.host_like(names.ALLOCATOR, Kind.RUNTIME),
            "h2d_prep": self.h2d_preparation,
            "gc": t.host_like(names.GARBAGE, *ranges),
            # newer PyTorch notes what torch.compile does as operators (_RecordFunctionFast)
            "compile": together(t.host_like(names.COMPILE, Kind.OP, *ranges), self.first_uses),
            "unknown": without(t.of_kind(Kind.OVERHEAD), t.host_like(names.MODULE_LOAD, Kind.OVERHEAD)),
            "optimizer_host": self.free_of_backward(together(t.host_like(names.OPTIMIZER, *ranges), self.zeroing)),
            "autograd_host": np.flatnonzero(backward),
            "dispatch": np.flatnonzero(forward | (t.host.kind == Kind.RUNTIME)),
        }

    @cached_property
    def evaluation(self) -> Index:
        """Return the ranges and frames that evaluate; none where all there is is evaluation: then it is no pause."""
        t = self.t
        found = t.host_like(names.EVALUATION, Kind.RANGE, Kind.PYTHON)
        low, high = t.whole_window
        return found if clip(t.spans(found), low, high).total < MOST * (high - low) else found[:0]

    @cached_property
    def copies(self) -> tuple[Index, Index]:
        """Return the calls that launched host-to-device copies, and those that launched device-to-host copies."""
        up = self.t.launch[self.t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)]
        down = self.t.launch[self.t.device_like(names.DEVICE_TO_HOST, Kind.MEMCPY)]
        return distinct(up), distinct(down)

    @cached_property
    def blocking(self) -> Index:
        """Return the calls that hold the host until the GPU has finished: synchronisations and reads back.

        A copy to pageable host memory returns only when it is done, whatever its name says.
        """
        up, down = self.copies
        return without(together(self.t.host_like(names.BLOCKING, Kind.RUNTIME), down), up)

    @cached_property
    def waiting(self) -> Index:
        """Return the calls in which the host may stand until the GPU has finished: blocking ones, and uploads.

        An upload from pageable memory, or one that PyTorch waits for, stands behind all work queued before it.
        """
        return together(self.blocking, self.copies[0])

    @cached_property
    def first_uses(self) -> Index:
        """Return the calls that load code: by their name, or because nothing else takes them so long, once."""
        t, h = self.t, self.t.host
        calls = t.of_kind(Kind.RUNTIME)
        slow = calls[h.end[calls] - h.start[calls] >= FIRST_USE]
        slow = without(slow, together(self.blocking, self.copies[0], t.host_like(names.ALLOCATOR)))
        load = t.host_like(names.MODULE_LOAD, Kind.RUNTIME, Kind.OVERHEAD)
        return together(slow[~self.recurs(slow)], load)

    def recurs(self, calls: Index) -> Mask:
        """Return which calls have a namesake among them in more than half of at least three steps: no first use."""
        h, steps = self.t.host, self.t.steps
        if len(steps) < MANY_STEPS:
            return np.zeros(len(calls), np.bool_)
        step = np.searchsorted(steps.start, h.start[calls], "right") - 1
        pairs = np.unique(np.stack((h.name[calls], step), axis=1), axis=0)
        often = np.bincount(pairs[:, 0], minlength=len(self.t.trace.strings)) > len(steps) / 2
        return np.asarray(often[h.name[calls]])

    @cached_property
    def h2d_preparation(self) -> Index:
        """Return the host side of host-to-device copies: the calls, and the operators around them."""
        t = self.t
        up = self.copies[0]
        movers = t.host_like(names.TO_DEVICE, Kind.OP)
        around = t.enclosing(t.host.start[up], t.host.thread[up], movers)
        pin = t.host_like(names.PIN, Kind.OP)
        return together(up, around, pin)

    @cached_property
    def zeroing(self) -> Index:
        """Return the ranges and frames that set gradients to zero.

        Where there are none, and a backward pass, the operators that set a tensor to zero by themselves: not those that
        other operators call, nor those of the backward pass's threads.
        """
        t, h = self.t, self.t.host
        named = t.host_like(names.ZERO_GRAD, Kind.RANGE, Kind.PYTHON)
        if len(named) or not self.in_backward.any():
            return named
        zero = t.host_like(names.ZERO, Kind.OP)
        zero = zero[~np.isin(h.thread[zero], distinct(h.thread[self.in_backward]))]
        return zero[t.enclosing(h.start[zero], h.thread[zero], without(t.of_kind(Kind.OP), zero)) < 0]

    def free_of_backward(self, index: Index) -> Index:
        """Return those of the optimizer's slices that hold no backward pass.

        A step that is given a closure runs forward and backward inside itself; Lightning always passes one.
        """
        h = self.t.host
        roots = np.sort(h.start[self.t.host_like(names.BACKWARD, Kind.OP)])
        inside = np.searchsorted(roots, h.end[index]) - np.searchsorted(roots, h.start[index])
        free: Index = index[inside == 0]
        return free

    @cached_property
    def in_backward(self) -> Mask:
        """Return for each host slice whether it is an operator that the backward pass runs."""
        t = self.t
        roots = t.host_like(names.BACKWARD, Kind.OP)
        inside = np.zeros(len(t.host), np.bool_)
        for thread in distinct(t.host.thread[roots]):
            mine = np.flatnonzero((t.host.thread == thread) & (t.host.kind == Kind.OP))
            spans = t.spans(roots[t.host.thread[roots] == thread])
            inside[mine] = containing(t.host.start[mine], spans) >= 0
        return inside

    def between_nodes(self, crew: Sequence[int]) -> Intervals:
        """Return when autograd's own threads are between two nodes of a backward pass, by the threads of a device.

        The main thread waits for them and begins nothing meanwhile. Python that users hang into the backward pass runs
        inside a node, so what is in between is the engine, or a thread that does not get the interpreter or a core.
        """
        if tuple(crew) not in self._between:
            self._between[tuple(crew)] = self._outside_nodes(crew)
        return self._between[tuple(crew)]

    def _outside_nodes(self, crew: Sequence[int]) -> Intervals:
        t, h = self.t, self.t.host
        roots = t.host_like(names.BACKWARD, Kind.OP)
        engines = [thread for thread in crew[1:] if thread in self.engines]
        outside = np.isin(h.thread, [thread for thread in crew if thread not in engines]) & (h.kind != Kind.OVERHEAD)
        begins = h.start[outside]
        parts = [NOTHING]
        for thread in engines:
            nodes = t.spans(roots[h.thread[roots] == thread])
            low, high = np.searchsorted(begins, (nodes.end[:-1], nodes.start[1:]))
            parts.append(Intervals(nodes.end[:-1][low == high], nodes.start[1:][low == high]))
        starts, ends = (np.concatenate([getattr(part, side) for part in parts]) for side in ("start", "end"))
        return union(starts, ends)

    @cached_property
    def engines(self) -> Index:
        """Return autograd's own threads: most of what they run is the backward pass."""
        h, ops = self.t.host, self.t.of_kind(Kind.OP)
        count = np.bincount(h.thread[ops], minlength=len(self.t.trace.threads))
        inside = np.bincount(h.thread[ops[self.in_backward[ops]]], minlength=len(count))
        return np.flatnonzero(inside > ENGINE_SHARE * count)

    @cached_property
    def operators_recorded(self) -> bool:
        return bool(len(self.t.of_kind(Kind.OP)) or len(self.t.of_kind(Kind.PYTHON)))
