"""Records of a process: what is left in its ring, and what was drained from it, as one sequence."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Ints
from whyidle.model.record import HEADER_BYTES, MAGIC, MOST_RECORDS, Record
from whyidle.read.blocks import content_of
from whyidle.read.typed import WRONG, Int, text_as

HEAD: Final = struct.Struct("<QIII")  # records written, capacity, nothing, length of the JSON
JSON_AT: Final = 32
ROW: Final = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("thread", "<u2"),
        ("sequence", "<u4"),
        ("start", "<i8"),
        ("duration", "<i8"),
        ("value", "<i8"),
    ]
)
MOST_BYTES: Final = HEADER_BYTES + MOST_RECORDS * ROW.itemsize
LATEST: Final = 1 << 62  # ns: later times are no times, and their sums would overflow

Rows = NDArray[np.void]


class Header(msgspec.Struct):
    """The process, as the JSON of a header tells."""

    version: Int = 1
    pid: Int = 0
    start_ns: Int = 0
    wall_ns: Int = 0
    argv: list[str] = []
    rank: Int | None = None
    local_rank: Int | None = None
    world_size: Int | None = None
    restart: Int | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """Records in order of their sequence, and what is known of those that are missing."""

    header: Header
    rows: Rows
    sequence: Ints  # since the beginning of the process
    lost: int


def read_records(drained: Sequence[Path], ring: Path | None, warnings: list[str]) -> Records:
    """Join the files of a process, the drained ones first; what was drained meanwhile is then in both, not in neither.

    Args:
        drained: ID.events and its tails, as far as they are there.
        ring: ID.ring, if it is there.
        warnings: told what is damaged.
    """
    header = Header()
    parts: list[tuple[Rows, Ints]] = []
    last = -1
    for path in drained:
        told, rows, _, _ = _file(path, warnings)
        header = told or header
        sequence = _unwrapped(rows["sequence"].astype(np.int64), last)
        parts.append((rows, sequence))
        last = int(sequence[-1]) if len(sequence) else last
    written = 0
    if ring is not None:
        told, rows, count, capacity = _file(ring, warnings)
        header = told or header
        rows, sequence = _of_ring(rows, count, capacity)
        parts.append((rows, sequence))
        written = count if len(sequence) else 0
    rows = np.concatenate([np.empty(0, ROW), *(rows for rows, _ in parts)])
    sequence = np.concatenate([np.empty(0, np.int64), *(sequence for _, sequence in parts)])
    sequence, first = np.unique(sequence, return_index=True)
    rows = rows[first]
    lost = max(written, int(sequence[-1]) + 1) - len(sequence) if len(sequence) else 0
    good = _valid(rows)
    if not good.all():
        path = ring or drained[0]
        warnings.append(f"{path}: {np.count_nonzero(~good):,} of {len(good):,} records are not valid and are left out.")
    return Records(header, rows[good], sequence[good], max(lost, 0))


def _file(path: Path, warnings: list[str]) -> tuple[Header | None, Rows, int, int]:
    """Return the header, the rows as they lie, records written, and a ring's capacity."""
    none = None, np.empty(0, ROW), 0, 0
    try:
        content, size = content_of(path, MOST_BYTES)
    except OSError as error:
        warnings.append(f"{path}: cannot be read: {error.strerror or error}.")
        return none
    if size > MOST_BYTES:
        warnings.append(f"{path}: larger than {MOST_BYTES >> 20} MiB, which the format does not allow; cut off there.")
    if not content:
        return none  # a tail that is about to be written
    if not content.startswith(MAGIC) or len(content) < HEADER_BYTES:
        warnings.append(f"{path}: not records of whyidle, or cut short in its header: left out.")
        return none
    count, capacity, before, length = HEAD.unpack_from(content, len(MAGIC))
    length = length or before  # early writers put it in front of its place
    body = content[HEADER_BYTES:]
    rows = np.frombuffer(body, ROW, len(body) // ROW.itemsize)
    try:
        header = text_as(content[JSON_AT : min(JSON_AT + length, HEADER_BYTES)], Header, path, warnings)
    except WRONG:
        warnings.append(f"{path}: its header is damaged: process and rank are not known from it.")
        header = None
    return header, rows, count, capacity


def _unwrapped(sequence: Ints, last: int) -> Ints:
    """Return sequences of 32 bits as they go on after `last`; a wrong one among them does not move the others."""
    if not len(sequence):
        return sequence
    steps = np.diff(np.concatenate(([last if last >= 0 else sequence[0]], sequence)))
    steps = (steps + (1 << 31)) % (1 << 32) - (1 << 31)
    return np.asarray(max(last, 0) * (last >= 0) + (0 if last >= 0 else sequence[0]) + np.cumsum(steps), np.int64)


def _of_ring(rows: Rows, count: int, capacity: int) -> tuple[Rows, Ints]:
    """Return the rows that a ring holds, and their sequences: those at the place that their number gives."""
    if not 0 < capacity <= MOST_RECORDS or count >= 1 << 62:
        return rows[:0], np.empty(0, np.int64)
    sequence = np.arange(max(count - capacity, 0), count, dtype=np.int64)
    place = sequence % capacity
    sequence, place = sequence[place < len(rows)], place[place < len(rows)]
    whole = rows["sequence"][place] == (sequence & 0xFFFFFFFF).astype(np.uint32)
    return rows[place[whole]], sequence[whole]


def _valid(rows: Rows) -> NDArray[np.bool_]:
    """Say which records make sense. Kinds that are not known come from a newer version."""
    start, duration = rows["start"], rows["duration"]
    known = (rows["kind"] >= 1) & (rows["kind"] <= max(Record))
    return np.asarray(known & (start >= 0) & (start < LATEST) & (duration >= 0) & (duration < LATEST))
