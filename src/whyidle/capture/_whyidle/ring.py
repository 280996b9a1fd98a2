"""The last records of a process, in a memory-mapped file of fixed size: what was written survives any death.

Its bytes are described in docs/run-directory.md. Every record of the job passes `Ring.put`, a few times per training
step, so this is the one place where microseconds are counted: no lock, no attribute that could be a local, no copy.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from itertools import count
from threading import get_ident
from typing import Any

BATCH, STEP, FORWARD, BACKWARD, SAVE, ITERATE, SCALE, PROFILE, COLLECT, GPU, WATCH, RANGE, COUNT, ENVIRONMENT, LOSS = (
    range(1, 16)
)

MAGIC = b"WHYIDLE1"
HEADER = 4096
RECORD = struct.Struct("<BBHIqqq")  # kind, flags, thread, sequence, start, duration, value
CAPACITY = 65_536


def _reserve(descriptor: int, size: int) -> None:
    """Give the file its blocks now: a hole in a mapped file on a full disk would kill the job with SIGBUS later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    block = bytes(65_536)
    for _ in range(0, size, len(block)):
        os.write(descriptor, block)


class Ring:
    """A file of `capacity` records, of which the newest replace the oldest.

    Args:
        path: of the file; it appears under this name with its header complete.
        description: what the header says of the process.
        capacity: records; a power of two.

    Raises:
        OSError: the file cannot be made, or the disk is full.
    """

    __slots__ = ("_memory", "_pack", "_publish", "_take", "capacity", "path", "written")

    def __init__(self, path: str, description: dict[str, Any], capacity: int = CAPACITY) -> None:
        size = HEADER + capacity * RECORD.size
        unfinished = path + ".new"
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _reserve(descriptor, size)
            self._memory = mmap.mmap(descriptor, size)
            text = _json(description)
            self._memory[: len(MAGIC)] = MAGIC
            struct.pack_into("<QIII", self._memory, 8, 0, capacity, 0, len(text))
            self._memory[32 : 32 + len(text)] = text
            os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise
        finally:
            os.close(descriptor)
        self.path = path
        self.capacity = capacity
        self.written = 0
        self._take = count().__next__
        self._pack = RECORD.pack_into
        self._publish = struct.Struct("<Q").pack_into

    def put(self, kind: int, start: int, duration: int, value: int = 0, flags: int = 0) -> int:
        """Write a record; ns. Returns its sequence.

        Threads, signal handlers and garbage collections may come in between anywhere. Taking a number is atomic
        (a single call into C), so each record has its own place; the count only ever grows. A reader that sees a
        count before the record that it counts finds the wrong sequence there, and knows.
        """
        sequence = self._take()
        place = 4096 + sequence % self.capacity * 32
        thread = get_ident() >> 6 & 0xFFFF
        try:
            self._pack(self._memory, place, kind, flags, thread, sequence & 0xFFFFFFFF, start, duration, value)
        except struct.error:  # a number too large; half of the record is written
            self._memory[place : place + 32] = bytes(32)
            raise
        if sequence >= self.written:
            self.written = sequence + 1
            self._publish(self._memory, 8, sequence + 1)
        return sequence


def _json(description: dict[str, Any]) -> bytes:
    """Return the description as it fits into the header; a command line that is too long loses its end."""
    text = json.dumps(description, default=str).encode()
    argv = [str(word) for word in description.get("argv") or ()]
    while len(text) > HEADER - 32 and argv:
        argv = [word[:200] for word in argv[: max(len(argv) // 2, 1)]] if len(argv) > 1 else []
        text = json.dumps({**description, "argv": argv}, default=str).encode()
    return text
