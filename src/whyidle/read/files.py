"""Which files a person means, which of them we can read, and in what order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import whyidle.read as package
from whyidle.discover import discover
from whyidle.read.base import READS, RECORD, FolderReader, Progress, Reader, UnreadableError
from whyidle.read.blocks import head_of
from whyidle.read.foreign import Foreign, foreign

RANK: Final = re.compile(r"(?<![a-z])(?:rank|worker)[-_ ]?(\d{1,9})(?!\d)", re.IGNORECASE)
INTO_A_FILE: Final = "Write it to a file first, since it is read more than once: `cat > trace.json; whyidle trace.json`"
TOLD_EVERY: Final = 100  # files that were looked at
TIMESTAMP: Final = re.compile(r"\d{10,19}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that a reader claims."""

    path: Path
    reader: type[Reader]
    rank: int | None  # if its first bytes tell
    named: bool  # by the person, not found in a folder
    age: tuple[int, int]  # orders by age: when it was changed, in s, then the timestamp in its name


@dataclass(frozen=True, slots=True)
class FolderCandidate:
    """A folder that a reader claims."""

    path: Path
    reader: type[FolderReader]


@dataclass(slots=True)
class Found:
    """What lies under the paths that a person gave."""

    candidates: list[Candidate] = field(default_factory=list)
    folders: list[FolderCandidate] = field(default_factory=list)
    refused: list[UnreadableError] = field(default_factory=list)  # in folders: what else lies there
    wrong: list[UnreadableError] = field(default_factory=list)  # named by the person


@cache
def all_readers() -> tuple[type[Reader], ...]:
    """Return every reader, in order of asking: by module name, greedy ones last."""
    return tuple(sorted(discover(package, Reader), key=lambda reader: reader.greedy))


@cache
def folder_readers() -> tuple[type[FolderReader], ...]:
    """Return every reader of folders, by module name."""
    return tuple(discover(package, FolderReader))


def find(paths: Iterable[Path], progress: Progress | None = None) -> Found:
    """Look at every path, and at every file under a folder; what is named twice is looked at once.

    Files come and go meanwhile, and some may not be looked at: what the system refuses is among what is refused.
    """
    found = Found()
    seen: set[Path] = set()
    for path in paths:
        try:
            for number, (file, named) in enumerate(_files(path, found)):
                if progress is not None and number % TOLD_EVERY == TOLD_EVERY - 1:
                    progress(path, number + 1, 0)
                try:
                    resolved = file.resolve()
                    if resolved not in seen:
                        seen.add(resolved)
                        found.candidates.append(_candidate(file, named))
                except (OSError, RuntimeError, UnreadableError) as error:
                    (found.wrong if named else found.refused).append(refused(file, error, named=named))
        except OSError as error:
            found.wrong.append(refused(path, error, named=True))
    found.candidates.sort(key=lambda candidate: (candidate.age, candidate.path.name), reverse=True)
    return found


def refused(path: Path, error: Exception, *, named: bool) -> UnreadableError:
    """Return what the system said of a file or folder as what is said of one that cannot be read.

    A file in a folder that has gone since it was listed was temporary: nobody misses it.
    """
    if isinstance(error, UnreadableError):
        return error
    gone = isinstance(error, FileNotFoundError)
    if gone and not named:
        return UnreadableError(path, "gone since it was found.")
    return UnreadableError(path, _reason(error), f"ls -l {path}", damaged=True)


def rank_in_name(path: Path) -> int | None:
    """Return the rank that a file's name tells: rank-3, rank_3, worker3; None if it tells none, or several."""
    ranks = {int(rank) for rank in RANK.findall(path.name)}
    return ranks.pop() if len(ranks) == 1 else None


def _files(path: Path, found: Found) -> Iterator[tuple[Path, bool]]:
    """Yield the files of a path and whether they were named."""
    if str(path) == "-":
        found.wrong.append(UnreadableError(path, "standard input is not read.", INTO_A_FILE))
    elif path.is_dir():
        refuse = lambda error: found.refused.append(UnreadableError(Path(error.filename), _reason(error)))  # noqa: E731
        for folder, folders, names in os.walk(path, onerror=refuse):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            left = _left_by_folder_readers(Path(folder), folders, names, found)
            yield from ((Path(folder, name), False) for name in sorted(left) if not name.startswith("."))
    elif path.is_file() and any(path.name == reader.marker for reader in folder_readers()):
        yield from _files(path.parent, found)
    elif path.exists() or path.is_symlink():
        yield path, True
    else:
        found.wrong.append(UnreadableError(path, "no such file or folder.", f"ls {path.parent}"))


def _left_by_folder_readers(folder: Path, inside: list[str], names: list[str], found: Found) -> list[str]:
    """Return the files of a folder that belong to no folder reader; note the folder if one reads it."""
    for reader in folder_readers():
        if reader.marker in names:
            if not any(known.path.resolve() == folder.resolve() for known in found.folders):
                found.folders.append(FolderCandidate(folder, reader))
            names = [name for name in names if not reader.claims(name)]
        elif any(_is_file(folder / name / reader.marker) for name in inside):
            names = [name for name in names if not reader.ours_beside(name)]
    return names


def _candidate(path: Path, named: bool) -> Candidate:
    try:
        if not path.is_file():
            raise UnreadableError(path, "a pipe or a device, not a regular file.", INTO_A_FILE)
        status = path.stat()
        head = head_of(path)
    except OSError as error:
        raise refused(path, error, named=named) from error
    if not head.strip():
        raise _empty(path, status.st_size)
    known = foreign(head, path)
    if known and not known.among_others:
        raise _unread(path, known)
    for reader in all_readers():
        if reader.sniff(head, path):
            stamp = max((int(digits.ljust(19, "0")) for digits in TIMESTAMP.findall(path.name)), default=0)
            return Candidate(path, reader, reader.peek_rank(head), named, (int(status.st_mtime), stamp))
    if known:
        raise _unread(path, known)
    what = "binary data" if b"\0" in head else "text"
    raise UnreadableError(path, f"{what} of no format that whyidle knows.", READS)


def _unread(path: Path, known: Foreign) -> UnreadableError:
    return UnreadableError(path, f"{known.name}, {known.why}.", known.hint or RECORD)


def _empty(path: Path, size: int) -> UnreadableError:
    lost = path.name.endswith((".json", ".json.gz"))
    if not size:
        return UnreadableError(
            path, "an empty file.", "Nothing was recorded, or it is not written yet. Record it again.", damaged=lost
        )
    what = "a gzip with nothing in it, or cut short at its start." if path.suffix == ".gz" else "only blanks."
    return UnreadableError(path, what, "Copy or record the trace again.", damaged=lost)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that may not be entered
        return False


def _reason(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {told or type(error).__name__}."
