"""CSV files that grow ever more slowly, and stop when the disk is full."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from whyidle.collect import counters
from whyidle.collect.counters import Table, cell


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size; Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def table(path: Path, warnings: list[str], samples: int = 10, rows: int = 1000) -> Table:
    return Table(path, ("a", "b"), warnings.append, samples=samples, rows=rows)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0, "0"), (0.0, "0"), (12.5, "12.5"), (100.0, "100"), (1e-6, "0.000001"), (123456.78, "123456.78")],
)
def test_cells(value: float | None, text: str) -> None:
    assert cell(value) == text


def test_rows_are_there_at_once(tmp_path: Path) -> None:
    file = table(tmp_path / "x.csv", [])
    assert not (tmp_path / "x.csv").exists()
    file.write(5, [(1, None), (2.5, "rank")])
    assert (tmp_path / "x.csv").read_text() == "time_ns,a,b\n5,1,\n5,2.5,rank\n"


def test_the_interval_doubles(tmp_path: Path) -> None:
    file = table(tmp_path / "x.csv", [], samples=4)
    written = []
    for tick in range(40):
        if file.due():
            written.append(tick)
            file.write(tick, [(0, 0)])
    assert written == [0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32]


def test_many_rows_per_sample_double_it_too(tmp_path: Path) -> None:
    file = table(tmp_path / "x.csv", [], samples=1000, rows=6)
    written = []
    for tick in range(8):
        if file.due():
            written.append(tick)
            file.write(tick, [(0, 0)] * 3)
    assert written == [0, 1, 2, 4]


def test_a_file_that_was_cut_off_in_a_row_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("time_ns,a,b\n1,2,3\n2,3")
    table(path, []).write(7, [(8, 9)])
    assert path.read_text() == "time_ns,a,b\n1,2,3\n2,3\n7,8,9\n"


def test_a_full_disk_ends_it_with_one_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    path = tmp_path / "x.csv"
    file = table(path, warnings)
    file.write(1, [(1, 1)])
    with small_files(25):
        file.write(2, [(123456789, 123456789)])
        file.write(3, [(1, 1)])
        assert not file.due()
    assert path.read_text() == "time_ns,a,b\n1,1,1\n"
    assert warnings == ["x.csv ends early: File too large"]


def test_no_space_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    warnings: list[str] = []
    monkeypatch.setattr(counters.os, "write", write)
    file = table(tmp_path / "x.csv", warnings)
    file.write(1, [(1, 1)])
    assert warnings == ["x.csv ends early: No space left on device"]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    warnings: list[str] = []
    table(tmp_path / "gone" / "x.csv", warnings).write(1, [(1, 1)])
    assert warnings == ["x.csv ends early: No such file or directory"]
