"""Lines of step time and throughput: sums that are known beforehand, files that grow, turn and stop half-way."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.launch.pace import EMIT_EVERY_S, Pace
from whyidle.model.evidence import Record

MS = 1_000_000


def record(kind: int, start_ms: float, ms: float = 0.0, value: int = 0, flags: int = 0) -> bytes:
    return struct.pack("<BBHIqqq", kind, flags, 0, 0, int(start_ms * MS), int(ms * MS), value)


def batch(start_ms: float, ms: float, samples: int = 0, tokens: int = 0, flags: int = 0) -> bytes:
    return record(Record.BATCH, start_ms, ms, samples << 32 | tokens, flags)


def loop(steps: int, wait_ms: float = 40.0, step_ms: float = 100.0, samples: int = 16, tokens: int = 0) -> bytes:
    parts = []
    for number in range(steps):
        start = number * step_ms
        parts += [batch(start, wait_ms, samples, tokens), record(Record.FORWARD, start + wait_ms, 10.0, flags=3)]
        parts += [record(Record.STEP, start + step_ms - 5.0, 5.0)]
    return b"".join(parts)


class Following:
    """A Pace with a clock of its own, and what it emitted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.lines: list[str] = []
        self.pace = Pace(folder, self.lines.append, lambda: self.now)

    def write(self, data: bytes, name: str = "1-2.events") -> None:
        path = self.folder / name
        head = b"" if path.exists() else b"WHYIDLE1".ljust(4096, b"\0")
        with path.open("ab") as file:
            file.write(head + data)

    def line(self) -> str:
        self.now += EMIT_EVERY_S
        self.pace.follow()
        return self.lines.pop() if self.lines else ""


@pytest.fixture
def following(tmp_path: Path) -> Following:
    return Following(tmp_path)


def test_a_line_is_what_the_steps_were(following: Following) -> None:
    following.write(loop(11, tokens=1600))
    expected = "step_time_sec=0.100000; data_wait_frac=0.4000; samples_per_sec=160.00; tokens_per_sec=16000.00;"
    assert following.line() == expected
    assert following.line() == ""  # no step since
    assert following.pace.count(Record.STEP) == 11


def test_clouds_find_each_number(following: Following) -> None:
    """As metric definitions of Amazon SageMaker do: a regular expression with one group."""
    following.write(loop(3))
    found = re.findall(r"(\w+)=([0-9.]+);", following.line())
    assert [name for name, _ in found] == ["step_time_sec", "data_wait_frac", "samples_per_sec"]


def test_what_was_not_measured_is_not_there(following: Following) -> None:
    following.write(loop(3, samples=0))
    assert following.line() == "step_time_sec=0.100000; data_wait_frac=0.4000;"


def test_ranks_add_up_in_throughput_and_not_in_time(following: Following) -> None:
    following.write(loop(5), "1-2.events")
    following.write(loop(5), "3-4.events")
    assert following.line() == "step_time_sec=0.100000; data_wait_frac=0.4000; samples_per_sec=320.00;"


def test_batches_of_an_evaluation_are_not_trained(following: Following) -> None:
    evaluation = batch(201, 30, 999) + record(Record.FORWARD, 235, 5, flags=0) + batch(245, 1, flags=1)
    following.write(loop(2) + evaluation + record(Record.FORWARD, 250, 1, flags=0) + record(Record.STEP, 299, 1))
    assert following.line() == "step_time_sec=0.100000; data_wait_frac=0.2000; samples_per_sec=80.00;"


def test_a_second_optimizer_does_not_make_more_steps(following: Following) -> None:
    following.write(b"".join(record(Record.STEP, 10 * n, 1, value=n % 2) for n in range(10)))
    assert following.line() == "step_time_sec=0.020000;"


def test_waits_of_an_iterator_that_is_not_seen_are_not_nought(following: Following) -> None:
    following.write(b"".join(record(Record.STEP, 100 * n, 1) for n in range(5)), "1-2.events")
    assert following.line() == "step_time_sec=0.100000;"
    following.write(b"".join(record(Record.STEP, 100 * n, 1) for n in range(5, 10)), "1-2.events")
    following.write(loop(6), "3-4.events")  # another process, which is seen to wait
    assert following.line() == "step_time_sec=0.100000; data_wait_frac=0.4000; samples_per_sec=160.00;"


@given(st.lists(st.integers(0, 3000), max_size=30))
def test_it_does_not_matter_when_it_looks(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    """A record that was written in part is read when it is whole."""
    following = Following(tmp_path_factory.mktemp("node"))
    data = loop(31)
    ends = [*sorted({min(cut, len(data)) for cut in cuts}), len(data)]
    start = 0
    for end in ends:
        following.write(data[start:end])
        following.pace.follow()
        start = end
    assert following.line().startswith("step_time_sec=0.100000; data_wait_frac=0.4000;")


def test_tails_take_turns(following: Following) -> None:
    following.write(loop(3))
    following.write(loop(5), "1-2.events.tail.0")
    following.pace.follow()
    (following.folder / "1-2.events.tail.0").write_bytes(b"WHYIDLE1".ljust(4096, b"\0"))
    following.pace.follow()
    following.write(loop(2), "1-2.events.tail.0")
    following.pace.follow()
    assert following.pace.count(Record.STEP) == 10


def test_the_last_line_comes_before_its_time(following: Following) -> None:
    following.write(loop(3))
    following.pace.follow()
    assert following.lines == []
    following.pace.tell()
    assert len(following.lines) == 1
