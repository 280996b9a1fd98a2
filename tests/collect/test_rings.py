"""Draining rings: every record once, whole, or declared lost by the gap in the sequences."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collect.conftest import RingWriter
from tests.collect.test_counters import small_files
from whyidle.collect.rings import HEADER_BYTES, MAGIC, Rings, header


def records(path: Path) -> list[int]:
    """Return the values of a file's records, which are their numbers."""
    data = path.read_bytes()
    assert data.startswith(MAGIC)
    assert (len(data) - HEADER_BYTES) % 32 == 0
    return [value for *_, value in struct.iter_unpack("<BBHIqqq", data[HEADER_BYTES:])]


def all_records(folder: Path, name: str = "7-1") -> list[int]:
    files = [folder / f"{name}.events{end}" for end in ("", ".tail.0", ".tail.1")]
    return sorted(value for path in files if path.exists() for value in records(path))


class Job:
    """One process with a ring, and a collector beside it."""

    def __init__(self, folder: Path, ring_capacity: int = 16, events_capacity: int = 1000, written: int = 0) -> None:
        self.capture, self.node = folder / "capture", folder / "node"
        self.capture.mkdir(parents=True)
        self.node.mkdir()
        self.ring = RingWriter(self.capture / "7-1.ring", ring_capacity, written)
        self.warnings: list[str] = []
        self.dead: set[int] = set()
        self.events_capacity = events_capacity
        self.restart()

    def restart(self) -> None:
        """Start the collector over."""
        self.rings = Rings(self.capture, self.node, self.warnings.append, self.events_capacity)

    def drain(self) -> None:
        self.rings.drain(self.dead.__contains__)

    @property
    def drained(self) -> list[int]:
        return all_records(self.node)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_records_go_over_in_order(job: Job) -> None:
    job.ring.write(3)
    job.drain()
    assert records(job.node / "7-1.events") == [0, 1, 2]
    job.ring.write(15)  # round the end
    job.drain()
    job.drain()
    assert records(job.node / "7-1.events") == list(range(18))
    assert job.rings.pids == {7}


def test_the_header_goes_over_and_follows(job: Job) -> None:
    job.ring.write()
    job.drain()
    job.ring.describe({"version": 1, "pid": 7, "rank": 3})
    job.ring.write()
    job.drain()
    data = (job.node / "7-1.events").read_bytes()
    magic, written, capacity, length = struct.unpack_from("<8sQI4xI4x", data)
    assert (magic, written, capacity) == (MAGIC, 0, 0)
    assert json.loads(data[32 : 32 + length])["rank"] == 3


def test_what_was_overwritten_is_a_gap(job: Job) -> None:
    job.ring.write(4)
    job.drain()
    job.ring.write(40)
    job.drain()
    assert job.drained == [0, 1, 2, 3, *range(29, 44)]  # record 28 lies where 44 is being written


def test_a_torn_record_does_not_count(job: Job) -> None:
    job.ring.write(20)
    job.drain()
    job.ring.tear(12)  # sequence and all, but no times
    job.dead.add(7)
    job.drain()
    assert job.drained == list(range(5, 20))


def test_a_record_that_comes_late_is_waited_for_once(job: Job) -> None:
    job.ring.write(2)
    job.ring.skip()  # counted by another thread that is not done yet
    job.ring.write(2)
    job.drain()
    assert job.drained == [0, 1]
    job.ring.fill(2)
    job.drain()
    assert job.drained == [0, 1, 2, 3, 4]
    job.ring.skip()
    job.ring.write(1)
    job.drain()
    job.drain()
    assert job.drained == [0, 1, 2, 3, 4, 6]


def test_files_stay_bounded(tmp_path: Path) -> None:
    job = Job(tmp_path, events_capacity=10)
    for _ in range(20):
        job.ring.write(4)
        job.drain()
    assert records(job.node / "7-1.events") == list(range(10))
    tails = [records(job.node / f"7-1.events.tail.{end}") for end in (0, 1)]
    assert sorted(tails) == [list(range(60, 70)), list(range(70, 80))]


def test_a_collector_that_starts_over_goes_on(tmp_path: Path) -> None:
    job = Job(tmp_path, events_capacity=10)
    for _ in range(20):
        job.ring.write(4)
        job.restart()
        job.drain()
    assert job.drained == [*range(10), *range(60, 80)]


def test_half_a_record_of_a_killed_collector_is_mended(job: Job) -> None:
    job.ring.write(3)
    job.drain()
    events = job.node / "7-1.events"
    events.write_bytes(events.read_bytes()[:-10])
    job.restart()
    job.ring.write(1)
    job.drain()
    assert records(events) == [0, 1, 2, 3]


def test_half_a_header_of_a_killed_collector_is_mended(job: Job) -> None:
    (job.node / "7-1.events").write_bytes(b"WHYIDLE1")
    job.ring.write(3)
    job.drain()
    assert job.drained == [0, 1, 2]


def test_a_ring_of_the_dead_goes_when_it_is_drained(job: Job) -> None:
    job.ring.write(3)
    job.dead.add(7)
    job.drain()
    assert job.ring.path.exists()
    job.drain()
    assert not job.ring.path.exists()
    job.drain()
    assert job.drained == [0, 1, 2]


def test_a_process_that_replaced_itself_leaves_a_ring(job: Job) -> None:
    job.ring.write(3)
    RingWriter(job.capture / "7-2.ring").write(1)
    for _ in range(3):
        job.drain()
    assert not job.ring.path.exists()
    assert (job.capture / "7-2.ring").exists()
    assert (job.drained, all_records(job.node, "7-2")) == ([0, 1, 2], [0])


def test_a_full_disk_keeps_the_ring_and_goes_on_later(tmp_path: Path) -> None:
    job = Job(tmp_path, events_capacity=5)
    job.ring.write(4)
    job.drain()
    job.dead.add(7)
    job.ring.write(7)
    with small_files(HEADER_BYTES + 4 * 32 + 10):
        for _ in range(3):
            job.drain()
    assert job.ring.path.exists()
    assert job.warnings
    assert set(job.warnings) == {"the records of the job's processes cannot be written: File too large"}
    assert job.drained == [0, 1, 2, 3]
    job.drain()
    assert job.drained == list(range(11))


def test_sequences_that_wrap(tmp_path: Path) -> None:
    start = 2**32 - 2
    job = Job(tmp_path, written=start)
    job.ring.write(6)
    job.drain()  # waits for those that this ring never had
    job.drain()
    job.restart()
    job.ring.write(2)
    job.drain()
    assert job.drained == list(range(start, start + 8))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(1, 40)),
            st.tuples(st.just("tear"), st.integers(1, 31)),
            st.tuples(st.sampled_from(["drain", "restart"]), st.just(0)),
        ),
        max_size=40,
    ),
    st.sampled_from([5, 16, 1000]),
)
def test_every_record_once_or_declared_lost(acts: list[tuple[str, int]], events_capacity: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder), ring_capacity=16, events_capacity=events_capacity)
        expected: set[int] = set()
        done = 0
        for act, amount in [*acts, ("drain", 0)]:
            if act == "drain":
                expected |= set(range(max(done, job.ring.written - 15), job.ring.written))
                done = job.ring.written
                job.drain()
            elif act == "restart":
                job.restart()
            elif act == "tear":
                job.ring.tear(amount)
            else:
                job.ring.write(amount)
            drained = all_records(job.node)
            assert len(drained) == len(set(drained))
            assert set(drained) <= expected
        if events_capacity == 1000:
            assert set(drained) == expected
        else:  # the first and the latest stay
            assert set(sorted(expected)[:events_capacity]) <= set(drained)
            assert set(sorted(expected)[-events_capacity:]) <= set(drained)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_garbage_never_raises(noise: bytes, written: int, capacity: int, length: int) -> None:
    head = struct.pack("<8sQI4xI4x", MAGIC, written, capacity, length)
    files = {
        "1-1.ring": noise,
        "2-1.ring": head + noise,
        "3-1.ring": (head + noise).ljust(5000, b"\1"),
        "4-1.ring": struct.pack("<8sQI4xI4x", MAGIC, written, capacity % 30, length % 4000).ljust(5000, b"\2"),
        "9-9": noise,
        "no number.ring": head,
        "4-1.events": noise,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        (folder / "5-1.ring").mkdir()
        os.mkfifo(folder / "6-1.ring")
        warnings: list[str] = []
        rings = Rings(folder, folder, warnings.append)
        for dead in (False, True, True):
            rings.drain(lambda _, dead=dead: dead)
        assert warnings == []
        assert header(noise, len(noise)) is None


WRITING = """
import mmap, struct, sys
capacity, count = 256, int(sys.argv[2])
with open(sys.argv[1], "r+b") as file:
    ring = mmap.mmap(file.fileno(), 0)
for index in range(count):
    struct.pack_into("<BBHIqqq", ring, 4096 + index % capacity * 32, 2, 0, 9, index, index * 10, 5, index)
    struct.pack_into("<Q", ring, 8, index + 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is read and what is mapped is one on Linux only")
def test_while_another_process_writes_as_fast_as_it_can(tmp_path: Path) -> None:
    count = 300_000
    job = Job(tmp_path, ring_capacity=256, events_capacity=count)
    with subprocess.Popen([sys.executable, "-c", WRITING, str(job.ring.path), str(count)]) as writer:
        while writer.poll() is None:
            job.drain()
    assert writer.returncode == 0
    job.drain()
    data = (job.node / "7-1.events").read_bytes()[HEADER_BYTES:]
    drained = list(struct.iter_unpack("<BBHIqqq", data))
    numbers = [value for *_, value in drained]
    assert numbers == sorted(set(numbers))
    assert numbers[-255:] == list(range(count - 255, count))
    assert [record for record in drained if record != (2, 0, 9, record[6], record[6] * 10, 5, record[6])] == []


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    Rings(tmp_path / "gone", tmp_path, [].append).drain(lambda _: True)
