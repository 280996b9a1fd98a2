"""How fast the job goes while it runs, from the records that the collector drains: lines for trainers and clouds.

The verdict is made of far more; this needs no more than a sum per step, so that it costs nothing beside a job.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from whyidle.model.record import COMPUTED, END_OF_DATA, FULL, GRADIENTS, HEADER_BYTES, MAGIC, RECORD, Record

EMIT_EVERY_S = 10.0


class Seen(NamedTuple):
    """A record, as docs/run-directory.md describes it."""

    kind: int
    flags: int
    thread: int
    sequence: int
    start: int  # ns
    duration: int  # ns
    value: int


@dataclass(slots=True)
class Sum:
    """What was seen in some steps: of one process, or of all."""

    steps: int = 0
    elapsed_ns: int = 0
    wait_ns: int = 0
    batches: int = 0  # records of them: without any, waits were not measured
    samples: int = 0
    tokens: int = 0

    def add(self, other: Sum) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Loop:
    """The training loop of one process, record by record."""

    counts: Counter[int] = field(default_factory=Counter)  # by kind; ends of data are none
    _sum: Sum = field(default_factory=Sum)
    _open: Sum = field(default_factory=Sum)  # batches of which it is not yet known what they are for
    _anchor: int | None = None  # the optimizer that steps are counted by: the first that was used
    _last_ns: int | None = None

    def see(self, record: Seen) -> None:
        ends = record.kind == Record.BATCH and record.flags & END_OF_DATA
        self.counts[record.kind] += not ends
        if record.kind == Record.BATCH:
            computed = max((record.flags >> COMPUTED) - 1, 0) / FULL
            self._open.batches += 1
            self._open.wait_ns += round(record.duration * (1 - computed))
            if not ends:
                self._open.samples += record.value >> 32 & 0xFFFFFF
                self._open.tokens += record.value & 0xFFFFFFFF
        elif record.kind == Record.FORWARD and not record.flags & GRADIENTS:
            self._open = Sum()  # an evaluation's batch
        elif record.kind == Record.STEP and self._anchor in (None, record.value):
            self._anchor = record.value
            end = record.start + record.duration
            if self._last_ns is not None:
                self._open.steps = 1
                self._open.elapsed_ns = end - self._last_ns
                self._sum.add(self._open)
            self._open = Sum()
            self._last_ns = end

    def taken(self) -> Sum:
        """Return what was seen since the last time."""
        taken, self._sum = self._sum, Sum()
        return taken


class Pace:
    """Follows all processes of a machine.

    Args:
        node: the machine's folder in the run directory.
        emit: takes a line about every 10 s; None where nobody asked.
        clock: seconds.
    """

    def __init__(
        self, node: Path, emit: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._node = node
        self._emit = emit
        self._clock = clock
        self._emitted = clock()
        self._loops: dict[str, Loop] = {}
        self._offsets: dict[str, int] = {}

    def follow(self) -> None:
        """Read what has come since the last time, and emit a line when it is due."""
        for name, record in self._new():
            self._loops.setdefault(name.partition(".")[0], Loop()).see(record)
        if self._clock() - self._emitted >= EMIT_EVERY_S:
            self.tell()

    def tell(self) -> None:
        """Emit a line on the steps since the last one, if there were any."""
        self._emitted = self._clock()
        line = _line([loop.taken() for loop in self._loops.values()])
        if line and self._emit is not None:
            self._emit(line)

    def count(self, kind: Record) -> int:
        """Return the most records of a kind that a process has written."""
        return max((loop.counts[kind] for loop in self._loops.values()), default=0)

    def _new(self) -> Iterator[tuple[str, Seen]]:
        for path in sorted(self._node.glob("*.events*")):
            with path.open("rb") as file:
                offset = self._offsets.get(path.name, 0)
                if path.stat().st_size < offset:  # it was emptied: its turn has come again
                    offset = 0
                if offset == 0:
                    offset = HEADER_BYTES if file.read(len(MAGIC)) == MAGIC else 0
                file.seek(offset)
                data = file.read()
            whole = len(data) - len(data) % RECORD.size
            self._offsets[path.name] = offset + whole
            for fields in RECORD.iter_unpack(data[:whole]):
                yield path.name, Seen(*fields)


def _line(sums: list[Sum]) -> str:
    """Return a line in which every number can be found by its name; what was not measured is not there."""
    stepping = [one for one in sums if one.steps and one.elapsed_ns > 0]
    if not stepping:
        return ""
    total = Sum()
    for one in stepping:
        total.add(one)
    samples = sum(one.samples / one.elapsed_ns * 1e9 for one in stepping)
    tokens = sum(one.tokens / one.elapsed_ns * 1e9 for one in stepping)
    loading = [one for one in stepping if one.batches]
    within = sum(one.elapsed_ns for one in loading)
    waits = sum(one.wait_ns for one in loading)
    parts = [
        f"step_time_sec={total.elapsed_ns / total.steps / 1e9:.6f};",
        *([f"data_wait_frac={min(waits / within, 1.0):.4f};"] if loading else []),
        *([f"samples_per_sec={samples:.2f};"] if samples else []),
        *([f"tokens_per_sec={tokens:.2f};"] if tokens else []),
    ]
    return " ".join(parts)
