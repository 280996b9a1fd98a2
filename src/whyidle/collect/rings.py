"""Drains the rings of the job's processes into files that only grow, so that a ring's few seconds become the whole run.

docs/run-directory.md describes both. A ring is written by another process while it is read here: a record counts only
if its sequence is its own and nothing could have overwritten it meanwhile. Rings are read, never mapped: a file that
its owner cuts short would otherwise kill the reader.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from whyidle.collect.counters import append
from whyidle.model.record import HEADER_BYTES, MAGIC, MOST_RECORDS, RECORD, SEQUENCES

RECORD_BYTES = RECORD.size
MOST_CAPACITY = 1 << 20  # records; a ring that claims more is none of ours
CAPACITY = MOST_RECORDS  # of ID.events, and of each of its tails
IDENTITY = re.compile(r"(\d{1,10})-(\d{1,19})")

_SEQUENCE = struct.Struct("<4xI24x")
_HEADER = struct.Struct("<8sQI")  # what follows is passed on as it is


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a ring: records written so far, records that it holds, and the bytes that describe its process."""

    written: int
    capacity: int
    description: bytes

    def for_events(self) -> bytes:
        """Return the same header for a file whose records are counted by its size."""
        return _HEADER.pack(MAGIC, 0, 0) + self.description


def header(data: bytes, size: int) -> Header | None:
    """Return a ring's header; None if the file is no ring, or not one yet."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        return None
    _, written, capacity = _HEADER.unpack_from(data)
    if not 0 < capacity <= min(MOST_CAPACITY, (size - HEADER_BYTES) // RECORD_BYTES):
        return None
    return Header(written, capacity, data[_HEADER.size :])


class Events:
    """What was drained from one ring: ID.events, and when it is full two tails that take turns.

    Args:
        folder: where the files lie.
        identity: the ID.
        capacity: records per file.
    """

    def __init__(self, folder: Path, identity: str, capacity: int = CAPACITY) -> None:
        self._files = [folder / f"{identity}.events{end}" for end in ("", ".tail.0", ".tail.1")]
        self._capacity = capacity
        self._current = 0
        self._header = b""

    def resume(self, written: int) -> int:
        """Go on with files that an earlier collector left; return the record that comes next.

        Args:
            written: records that the ring has seen.
        """
        latest = -1
        for index, path in enumerate(self._files):
            last = _last_sequence(path)
            if last is None:
                continue
            record = written - 1 - (written - 1 - last) % SEQUENCES
            if record > latest:
                latest, self._current = record, index
        return latest + 1

    def append(self, header: bytes, records: bytes) -> None:
        """Write records, whole ones, after those that are there.

        Raises:
            OSError: the disk is full, or the folder is gone. What was not written can be appended again.
        """
        while records:
            records = self._fill(header, records)

    def _fill(self, header: bytes, records: bytes) -> bytes:
        file = os.open(self._files[self._current], os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            held, torn = divmod(os.fstat(file).st_size - HEADER_BYTES, RECORD_BYTES)
            if held < self._capacity:
                if held < 0:
                    os.ftruncate(file, 0)
                elif torn:  # an earlier collector was killed
                    os.ftruncate(file, HEADER_BYTES + held * RECORD_BYTES)
                if held >= 0 and self._header != header:
                    self._describe(header)
                part = records[: (self._capacity - max(0, held)) * RECORD_BYTES]
                append(file, header + part if held < 0 else part)
                self._header = header
                return records[len(part) :]
        finally:
            os.close(file)
        self._current = 2 if self._current == 1 else 1
        self._files[self._current].unlink(missing_ok=True)
        return records

    def _describe(self, header: bytes) -> None:
        """Write the header anew: a process learns its rank after its first records."""
        file = os.open(self._files[self._current], os.O_WRONLY | os.O_CLOEXEC)
        try:
            if os.pwrite(file, header, 0) != len(header):
                raise OSError(f"{self._files[self._current].name}: header cut short")
        finally:
            os.close(file)


def _last_sequence(path: Path) -> int | None:
    """Return the sequence of the last whole record of a file; None if it has none."""
    try:
        with path.open("rb") as file:
            records = (file.seek(0, os.SEEK_END) - HEADER_BYTES) // RECORD_BYTES
            if records <= 0:
                return None
            file.seek(HEADER_BYTES + (records - 1) * RECORD_BYTES)
            return int(_SEQUENCE.unpack(file.read(RECORD_BYTES))[0])
    except (OSError, struct.error):
        return None


class Ring:
    """One ring, and how far it is drained.

    Args:
        path: ID.ring.
        events: where its records go.
    """

    def __init__(self, path: Path, events: Events) -> None:
        self.path = path
        self.written = 0
        self.stale = False  # not moved since it was looked at before
        self._events = events
        self._next: int | None = None
        self._awaited: int | None = None

    @property
    def drained(self) -> bool:
        """Whether all that was ever written to it has been written on, as far as it still could be."""
        return self._next is not None and self._next >= self.written

    def drain(self, *, final: bool = False) -> None:
        """Write on what is new.

        Args:
            final: its process is dead: a record that is not there now never will be.

        Raises:
            OSError: the records cannot be written; the next call tries again.
        """
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it might be a pipe
        except OSError:
            return
        try:
            ring = header(os.pread(file, HEADER_BYTES, 0), os.fstat(file).st_size)
            if ring is None:
                return
            if self._next is None:
                self._next = self._events.resume(ring.written)
            self.stale = ring.written == self.written
            self.written = ring.written
            if self._next >= ring.written:
                return
            records, end = self._new(file, ring, self._next, final)
        except OSError:  # unreadable, which is not the disk that we write to
            return
        finally:
            os.close(file)
        try:
            self._events.append(ring.for_events(), records)
        except OSError:
            self._next = None  # part of them may be there: the files know
            raise
        self._next = end

    def _new(self, file: int, ring: Header, first: int, final: bool) -> tuple[bytes, int]:
        """Return the records from `first` on that are whole, and the record that comes after them."""
        first = max(first, ring.written - ring.capacity)
        data = _between(file, ring, first)
        now = os.pread(file, HEADER_BYTES, 0)
        later = header(now, HEADER_BYTES + ring.capacity * RECORD_BYTES)
        # The record that is being written at this moment lies where this one was.
        overwritten = (later.written if later else ring.written) - ring.capacity
        kept: list[bytes] = []
        for offset, (sequence,) in enumerate(_SEQUENCE.iter_unpack(data)):
            record = first + offset
            if record <= overwritten:
                continue
            if sequence != record % SEQUENCES:
                if not final and self._awaited != record and (self._awaited is None or record > self._awaited):
                    self._awaited = ring.written - 1  # two threads write at once: it may come yet, until the next look
                    return b"".join(kept), record
                continue
            kept.append(data[offset * RECORD_BYTES : (offset + 1) * RECORD_BYTES])
        return b"".join(kept), ring.written


def _between(file: int, ring: Header, first: int) -> bytes:
    """Return the bytes of the records from `first` to the last."""
    start, end = first % ring.capacity, ring.written % ring.capacity
    parts = [(start, end)] if start < end else [(start, ring.capacity), (0, end)]
    data = b"".join(
        os.pread(file, (stop - begin) * RECORD_BYTES, HEADER_BYTES + begin * RECORD_BYTES) for begin, stop in parts
    )
    return data[: len(data) - len(data) % RECORD_BYTES]


class Rings:
    """All rings of a capture folder.

    Args:
        capture: where the job's processes make them.
        node: where their records go.
        warn: is told once when records cannot be written.
        capacity: records per file of events.
    """

    def __init__(self, capture: Path, node: Path, warn: Callable[[str], None], capacity: int = CAPACITY) -> None:
        self._capture = capture
        self._node = node
        self._warn = warn
        self._capacity = capacity
        self._rings: dict[str, Ring] = {}
        self._seen: set[int] = set()

    @property
    def pids(self) -> set[int]:
        """Processes that ever had a ring."""
        return self._seen

    def drain(self, ended: Callable[[int], bool]) -> None:
        """Write on what is new in every ring; remove those that are drained and whose process has ended.

        Args:
            ended: whether a process is known to have ended. One that replaced itself with `exec` has an older ring too.
        """
        self._look()
        newest: dict[int, int] = {}
        for identity in self._rings:
            pid, start = map(int, identity.split("-"))
            newest[pid] = max(newest.get(pid, 0), start)
        for identity, ring in list(self._rings.items()):
            pid, start = map(int, identity.split("-"))
            dead = ended(pid) or start < newest[pid]
            try:
                ring.drain(final=dead)
            except OSError as error:
                self._warn(f"the records of the job's processes cannot be written: {error.strerror or error}")
                continue
            if dead and ring.drained and ring.stale:
                with contextlib.suppress(OSError):
                    ring.path.unlink()
                del self._rings[identity]

    def _look(self) -> None:
        """Find new rings; forget those that are gone."""
        try:
            names = {path.stem: path for path in self._capture.glob("*.ring")}
        except OSError:
            return
        for identity in self._rings.keys() - names.keys():
            del self._rings[identity]
        for identity in sorted(names.keys() - self._rings.keys()):
            if IDENTITY.fullmatch(identity):
                self._rings[identity] = Ring(names[identity], Events(self._node, identity, self._capacity))
                self._seen.add(int(identity.split("-")[0]))
