"""Many files, in one process or several: the same findings in the same order either way."""

from __future__ import annotations

import gc
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from whyidle.lint.base import Check
from whyidle.lint.files import File, root_of, shown
from whyidle.lint.findings import Said, asked, linted
from whyidle.lint.project import Project
from whyidle.lint.settings import Settings, warnings_of
from whyidle.lint.source import Source, Unread

Progress: TypeAlias = Callable[[int, int], None]  # files done, files in all

LINES = 60_000  # trees of so many lines take 90 MB (measured, Python 3.11): more are not held at once
PARALLEL = 50  # files; for fewer a second process takes longer to start than it saves (measured: 0.4 s)
PARTS = 4  # for each process: files differ, and the last part should not be long (judgement)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What linting one file gave."""

    file: File
    lines: int = 0
    unread: Unread | None = None
    said: tuple[Said, ...] = ()
    warnings: tuple[str, ...] = ()  # of comments in it


class Library:
    """The files of a project that were read, each parsed once, and their imports of each other."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Look for imported modules below these folders."""
        self._roots = roots
        self._forget()

    def _forget(self) -> None:
        self._known: dict[Path, Source | Unread] = {}
        self._lines = 0
        self.project = Project(self._roots, self._imported)

    def read(self, file: File) -> Source | Unread:
        """Return a file that is linted."""
        if self._lines > LINES:  # what is needed again is read again
            self._forget()
            gc.collect()  # trees and what is known of them hold each other
        return self._once(file.path, file)

    def _imported(self, path: Path) -> Source | None:
        found = self._once(path, None)
        return None if isinstance(found, Unread) else found

    def _once(self, path: Path, file: File | None) -> Source | Unread:
        real = path.resolve()
        if real not in self._known:
            found = (file or File(path, shown(path), root_of(path))).read()
            self._known[real] = found
            self._lines += 0 if isinstance(found, Unread) else found.text.count("\n")
        return self._known[real]


def outcomes(
    files: Sequence[File], settings: Settings, jobs: int = 1, progress: Progress | None = None
) -> Iterator[Outcome]:
    """Yield what linting each file gives, in the order of the files.

    Args:
        files: what to read.
        settings: which checks are asked.
        jobs: processes to use at most.
        progress: told how many files are done.
    """
    roots = tuple(dict.fromkeys(file.root for file in files))
    if jobs <= 1 or len(files) <= PARALLEL:
        found = _outcomes(files, roots, settings)
    else:
        found = _in_processes(files, roots, settings, jobs)
    for done, outcome in enumerate(found, 1):
        if progress is not None:
            progress(done, len(files))
        yield outcome


def _outcomes(files: Sequence[File], roots: Sequence[Path], settings: Settings) -> Iterator[Outcome]:
    library = Library(roots)
    checks = asked(settings)
    with _no_collections():
        yield from (_outcome(file, library, checks, settings) for file in files)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Look for garbage only where trees are let go of: they are many objects, looked at again and again in vain.

    Measured on 300,000 lines: a quarter of the time, and no more memory.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _outcome(file: File, library: Library, checks: Sequence[type[Check]], settings: Settings) -> Outcome:
    source = library.read(file)
    if isinstance(source, Unread):
        return Outcome(file, unread=source)
    try:
        found = linted(source, library.project, checks, settings)
    except RecursionError:
        return Outcome(file, unread=Unread(file.name, "nests deeper than we follow"))
    said = tuple(Said(one.finding, one.check) for one in found)  # without trees, which are large
    return Outcome(file, source.text.count("\n"), said=said, warnings=warnings_of(source))


def _in_processes(files: Sequence[File], roots: Sequence[Path], settings: Settings, jobs: int) -> Iterator[Outcome]:
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - 25 ms, which one file does not need
    from multiprocessing import active_children  # noqa: PLC0415

    size = max(len(files) // (jobs * PARTS), 1)
    parts = [files[first : first + size] for first in range(0, len(files), size)]
    # Ctrl-C reaches every process of the terminal; this one says so, once.
    quiet = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    others = set(active_children())
    with ProcessPoolExecutor(min(jobs, len(parts)), initializer=quiet) as pool:
        try:
            waiting = deque(pool.submit(_part, part, roots=roots, settings=settings) for part in parts)
            while waiting:
                yield from waiting.popleft().result()
        except BaseException:
            # Python ends only when they have. No future is cancelled: in Python 3.11 that stops the thread which sees
            # that they are gone, and Python never ends.
            for worker in set(active_children()) - others:
                worker.terminate()
            raise


def _part(files: Sequence[File], roots: Sequence[Path], settings: Settings) -> list[Outcome]:
    return list(_outcomes(files, roots, settings))
