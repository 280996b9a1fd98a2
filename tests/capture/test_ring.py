"""The ring: its bytes are those of docs/run-directory.md, and it stays as large as it was made."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.capture import injecting, reading

sys.path.insert(0, str(injecting.CAPTURE))
from _whyidle import record as recording
from _whyidle import ring as rings

sys.path.remove(str(injecting.CAPTURE))

DESCRIPTION: dict[str, Any] = {"version": 1, "pid": 7, "argv": ["python", "train.py"], "start_ns": 0}


@pytest.fixture
def recorder(tmp_path: Path) -> Any:
    """The recorder of this very process, writing into a folder of the test."""
    recording.start(str(tmp_path))
    yield recording
    recording.stop()


def test_records_are_written_as_they_are_read(tmp_path: Path) -> None:
    ring = rings.Ring(str(tmp_path / "7-1.ring"), DESCRIPTION, capacity=16)
    assert ring.put(rings.BATCH, 10, 5, 3 << 56 | 32 << 32 | 99, 2) == 0
    assert ring.put(rings.COUNT, -1, 0, -(2**63)) == 1
    read = reading.read(tmp_path / "7-1.ring")
    assert read.header == DESCRIPTION
    assert (read.written, read.capacity) == (2, 16)
    thread = threading.get_ident() >> 6 & 0xFFFF
    assert read.records[0] == ("BATCH", 2, thread, 0, 10, 5, 3 << 56 | 32 << 32 | 99)
    assert (read.records[0].loader, read.records[0].samples, read.records[0].tokens) == (3, 32, 99)
    assert read.records[1] == ("COUNT", 0, thread, 1, -1, 0, -(2**63))


def test_a_million_records_take_no_more_room_than_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "7-1.ring"
    ring = rings.Ring(str(path), DESCRIPTION)
    size, blocks = path.stat().st_size, path.stat().st_blocks
    assert size == 4096 + 65_536 * 32
    assert blocks * 512 >= size  # no hole that a full disk could tear open
    for number in range(1_000_000):
        ring.put(rings.STEP, number, 1)
    assert (path.stat().st_size, path.stat().st_blocks) == (size, blocks)
    read = reading.read(path)
    assert read.written == 1_000_000
    assert [record.start for record in read.records] == list(range(1_000_000 - 65_536, 1_000_000))


def test_threads_write_beside_each_other(tmp_path: Path) -> None:
    ring = rings.Ring(str(tmp_path / "7-1.ring"), DESCRIPTION)
    threads = [
        threading.Thread(target=lambda name=name: [ring.put(name, 0, 0, number) for number in range(10_000)])
        for name in range(1, 5)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    read = reading.read(tmp_path / "7-1.ring")
    assert read.written == len(read.records) == 40_000
    for kind in ("BATCH", "STEP", "FORWARD", "BACKWARD"):
        assert [record.value for record in read.records if record.kind == kind] == list(range(10_000))


def test_a_command_line_that_is_too_long_loses_its_end(tmp_path: Path) -> None:
    words = ["python", *(f"--option-{number}=é" for number in range(2_000))]
    rings.Ring(str(tmp_path / "7-1.ring"), {**DESCRIPTION, "argv": words}, capacity=16)
    header = reading.read(tmp_path / "7-1.ring").header
    assert header["pid"] == 7
    assert 1 < len(header["argv"]) < 2_000
    assert header["argv"] == words[: len(header["argv"])]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot reserve a file's blocks")
def test_on_a_full_disk_there_is_no_ring_and_no_rest_of_one(
    tmp_path: Path, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert [recorder.put(rings.STEP, 0, 1) for _ in range(3)] == [-1, -1, -1]
    assert [path.name for path in tmp_path.iterdir()] == ["errors.txt"]
    note = reading.errors(tmp_path)
    assert "this process is not recorded" in note
    assert "No space left on device" in note


def test_what_does_not_train_makes_no_ring(tmp_path: Path, recorder: Any) -> None:
    for kind in (rings.COLLECT, rings.SAVE, rings.COUNT, rings.ENVIRONMENT):
        for _ in range(400):
            assert recorder.put(kind, 0, 1) == -1
    assert list(tmp_path.iterdir()) == []
    assert recorder.put(rings.STEP, 0, 1) == 256  # what came before it was kept, within bounds
    (ring,) = reading.rings(tmp_path)
    assert ring.counts() == {"SAVE": 256, "STEP": 1}


def test_a_record_that_cannot_be_written_is_noted_and_costs_nothing(tmp_path: Path, recorder: Any) -> None:
    assert recorder.put(rings.STEP, 0, 1) == 0
    assert recorder.put(rings.STEP, 0, 2**70) == -1
    assert recorder.put(rings.STEP, 0, 1) == 2
    assert "struct.error" in reading.errors(tmp_path)
    (ring,) = reading.rings(tmp_path)
    assert [record.sequence for record in ring.records if record.duration] == [0, 2]


def test_notes_of_errors_are_bounded(tmp_path: Path, recorder: Any) -> None:
    for _ in range(100):
        recorder.note_error("x" * 100_000)
    assert len(reading.errors(tmp_path)) < 200_000
    assert recorder.errors() >= 100
