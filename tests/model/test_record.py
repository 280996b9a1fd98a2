"""The layout of records is written down more than once, as a job shares no code with us: it must be one."""

from __future__ import annotations

import sys
from pathlib import Path

import whyidle.read.records as read
from whyidle.model import record

CAPTURE = Path(record.__file__).parents[1] / "capture"


def test_who_writes_and_who_reads_agree() -> None:
    sys.path.insert(0, str(CAPTURE))
    try:
        from _whyidle import loader, ring
    finally:
        sys.path.remove(str(CAPTURE))
    assert (ring.MAGIC, ring.HEADER, ring.RECORD.format) == (record.MAGIC, record.HEADER_BYTES, record.RECORD.format)
    assert {name: getattr(ring, name) for name in record.Record.__members__} == dict(record.Record.__members__)
    assert (loader.END, loader.COMPUTED, loader.FULL) == (record.END_OF_DATA, record.COMPUTED, record.FULL)
    fields = read.ROW.fields
    assert fields is not None
    assert read.ROW.itemsize == record.RECORD.size
    offsets = {name: where[1] for name, where in fields.items()}
    assert offsets == {"kind": 0, "flags": 1, "thread": 2, "sequence": 4, "start": 8, "duration": 16, "value": 24}
