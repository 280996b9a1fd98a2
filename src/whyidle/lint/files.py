"""Which files are meant by the paths that a person names, and what each of them is called."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from whyidle.errors import WhyIdleError
from whyidle.lint.parsing import NOTEBOOK, largest, parsed
from whyidle.lint.source import Source, Unread

SUFFIXES = (".py", NOTEBOOK)
SKIPPED = {"site-packages", "node_modules", "build", "dist", "__pycache__"}  # and hidden ones, and environments
PROJECT = (".git", "pyproject.toml", "setup.py")  # what lies in the uppermost folder of a project


@dataclass(frozen=True, slots=True)
class File:
    """A file to read."""

    path: Path
    name: str  # as reports call it
    root: Path  # of the project, below which its imports lie
    named: bool = False  # by the user, not found in a folder
    given: bytes | None = None  # what it holds, where that is not on the disk

    def read(self) -> Source | Unread:
        """Return what is in it."""
        if self.given is not None:
            return parsed(self.given, self.path, self.name)
        try:
            with self.path.open("rb") as stream:
                data = stream.read(largest(self.path) + 1)
        except OSError as error:
            return Unread(self.name, f"cannot be read: {error.strerror or error}")
        return parsed(data, self.path, self.name)


def files_in(
    paths: Iterable[Path], exclude: Sequence[str] = (), base: Path | None = None
) -> tuple[list[File], list[Unread]]:
    """Return the files to lint, each once, in the order of the paths and then of names, and folders that are locked.

    Args:
        paths: files and folders that the user names. A file is read whatever it is called.
        exclude: patterns of names, or of paths below `base`, that are left out of folders.
        base: where the settings stand that the patterns come from.

    Raises:
        WhyIdleError: for a path that is not there.
    """
    found: dict[Path, File] = {}
    unread: list[Unread] = []
    base = Path.cwd() if base is None else base
    for path in paths:
        if not _is_there(path):
            raise WhyIdleError(f"no such file or folder: {path}", "whyidle lint PATH, a file or a folder of your code")
        root = root_of(path)
        if not path.is_dir():
            found[_real(path)] = File(path, shown(path), root, named=True)
            continue
        for file in _walk(path, exclude, base, unread):
            found.setdefault(_real(file), File(file, shown(file), root))
    return list(found.values()), unread


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # in a folder that we may not enter: reading it will tell
        return True
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # which, unlike resolve(), also takes links that lead in a circle


def _walk(folder: Path, exclude: Sequence[str], base: Path, unread: list[Unread]) -> Iterator[Path]:
    """Yield the files of a folder and those below, in order of names. Links to folders are not followed."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        unread.append(Unread(shown(folder), f"cannot be opened: {error.strerror or error}"))
        return
    folders: list[Path] = []
    for entry in entries:
        path = folder / entry.name
        try:
            is_folder, is_file = entry.is_dir(follow_symlinks=False), entry.is_file()
        except OSError:  # a link that leads in a circle
            continue
        if (is_folder and _is_skipped(entry)) or (exclude and is_matched(path, exclude, base)):
            continue
        if is_folder:
            folders.append(path)
        elif is_file and path.suffix.lower() in SUFFIXES:
            yield path
    for path in folders:
        yield from _walk(path, exclude, base, unread)


def _is_skipped(folder: os.DirEntry[str]) -> bool:
    hidden = folder.name.startswith(".") or folder.name in SKIPPED
    return hidden or os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - once per folder


def is_matched(path: Path, patterns: Iterable[str], base: Path) -> bool:
    """Say whether a pattern means this path: by its name, or by its path below `base` or that of a folder of it."""
    relative = Path(os.path.relpath(path.absolute(), base))
    wholes = [part.as_posix() for part in (relative, *relative.parents) if part.name]
    for pattern in patterns:
        bare = pattern.removeprefix("./").rstrip("/")
        for whole in wholes:
            if any(fnmatchcase(whole, one) for one in (bare, bare.removeprefix("**/"), bare.removesuffix("/**"))):
                return True
            if "/" not in bare and fnmatchcase(whole.rpartition("/")[2], bare):
                return True
    return False


def shown(path: Path) -> str:
    """Return a path as reports call it: relative to where the user stands, where it lies below that."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - a link keeps its name
    try:
        return absolute.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def root_of(path: Path) -> Path:
    """Return the folder below which the imports of a file lie.

    Where the user stands, if the file lies below that; else the nearest folder above that looks like a project's; else
    the one that is named or holds the file, or that above the package that it belongs to.
    """
    folder = _real(path if _is_there(path) and path.is_dir() else path.parent)
    here = _real(Path.cwd())
    if folder.is_relative_to(here):
        return here
    for above in (folder, *folder.parents):
        if any((above / sign).exists() for sign in PROJECT):
            return above
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder
