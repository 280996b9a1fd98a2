"""A small reader of rings for tests: written from docs/run-directory.md alone, so that it checks the writer."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("BATCH", "STEP", "FORWARD", "BACKWARD", "SAVE", "ITERATE", "SCALE", "PROFILE", "COLLECT", "GPU", "WATCH")
KINDS += ("RANGE", "COUNT", "ENVIRONMENT", "LOSS")  # numbered from 1


class Record(NamedTuple):
    kind: str
    flags: int
    thread: int
    sequence: int
    start: int  # ns
    duration: int  # ns
    value: int

    @property
    def loader(self) -> int:
        return self.value >> 56 & 0xFF

    @property
    def samples(self) -> int:
        return self.value >> 32 & 0xFFFFFF

    @property
    def tokens(self) -> int:
        return self.value & 0xFFFFFFFF


@dataclass(frozen=True)
class Ring:
    path: Path
    header: dict[str, Any]
    written: int  # since the beginning
    capacity: int
    records: tuple[Record, ...]  # that are still there and whole, in order

    def counts(self, *without: str) -> dict[str, int]:
        return count(self.records, *without)


def count(records: Iterable[Record], *without: str) -> dict[str, int]:
    """Records by kind; the end of a loader's data is an END, not a BATCH. Collections come when they like."""
    names = ("END" if record.kind == "BATCH" and record.flags & 1 else record.kind for record in records)
    return dict(Counter(name for name in names if name != "COLLECT" and name not in without))


def read(path: Path) -> Ring:
    data = path.read_bytes()
    assert data[:8] == b"WHYIDLE1"
    written, capacity, _, length = struct.unpack_from("<QIII", data, 8)
    header = json.loads(data[32 : 32 + length])
    assert len(data) == 4096 + capacity * 32
    records = []
    for number in range(max(written - capacity, 0), written):
        kind, *rest = struct.unpack_from("<BBHIqqq", data, 4096 + number % capacity * 32)
        if rest[2] == number % 2**32 and kind:
            records.append(Record(KINDS[kind - 1], *rest))
    return Ring(path, header, written, capacity, tuple(records))


def rings(folder: Path) -> list[Ring]:
    """All rings in a folder, oldest process first."""
    return sorted((read(path) for path in folder.glob("*.ring")), key=lambda ring: ring.header["start_ns"])


def errors(folder: Path) -> str:
    path = folder / "errors.txt"
    return path.read_text("utf-8") if path.exists() else ""
