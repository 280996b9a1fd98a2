"""What processes wrote into a local folder comes to the run directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whyidle.collect.mirror import Mirror

NAMES = ("7-1.facts.json", "7-1.worker-0-3.json", "trace-rank0-7-1.json.gz", "errors.txt")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "local", tmp_path / "run"
    source.mkdir()
    target.mkdir()
    return source, target


def test_files_come_once_they_stand_still(folders: tuple[Path, Path]) -> None:
    source, target = folders
    mirror = Mirror(source, target, [].append)
    for name in NAMES:
        (source / name).write_text("growing")
    (source / "7-1.ring").write_text("a ring")
    (source / "notes.txt").write_text("of another")
    mirror.copy()
    assert list(target.iterdir()) == []
    mirror.copy()
    assert sorted(path.name for path in target.iterdir()) == sorted(NAMES)
    (source / NAMES[0]).write_text("has changed")
    mirror.copy()
    assert (target / NAMES[0]).read_text() == "growing"
    mirror.copy()
    assert (target / NAMES[0]).read_text() == "has changed"


def test_at_the_end_everything_comes(folders: tuple[Path, Path]) -> None:
    source, target = folders
    (source / NAMES[0]).write_text("x")
    Mirror(source, target, [].append).copy(final=True)
    assert (target / NAMES[0]).read_text() == "x"


def test_one_folder_is_left_alone(folders: tuple[Path, Path]) -> None:
    source, _ = folders
    (source / NAMES[0]).write_text("x")
    before = (source / NAMES[0]).stat()
    Mirror(source, source, [].append).copy(final=True)
    assert (source / NAMES[0]).stat() == before


def test_what_cannot_be_copied_is_said(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = folders
    (source / NAMES[0]).write_text("x")
    target.rmdir()
    target.write_text("no folder")
    warnings: list[str] = []
    Mirror(source, target, warnings.append).copy(final=True)
    assert warnings == [f"{NAMES[0]} stays in {source}: it cannot be copied: {os.strerror(20)}"]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    Mirror(tmp_path / "gone", tmp_path, [].append).copy(final=True)
