"""Writes counters as CSV: append-only, a row per sample.

Each row is handed to the kernel at once, so that nothing is lost when the recording is killed. A file grows ever more
slowly, so that a job of a day and one of a year are bounded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Cell = int | float | str | None

SAMPLES = 86_400  # after as many the interval doubles: a day at one a second (docs/run-directory.md)
ROWS = 345_600  # or after as many rows, where a sample has several: about 35 MB
DECIMALS = 6


def cell(value: Cell) -> str:
    """Return how a value is written; what was not measured is empty."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
    return str(value)


class Table:
    """One CSV file.

    A full disk, or whatever else keeps it from being written, ends it with one warning.

    Args:
        path: the file; one that exists is gone on with.
        columns: names, without the first, `time_ns`.
        warn: is told when the file cannot be written.
        samples: after as many the interval doubles.
        rows: or after as many of these.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        warn: Callable[[str], None],
        *,
        samples: int = SAMPLES,
        rows: int = ROWS,
    ) -> None:
        self.path = path
        self._header = ",".join(("time_ns", *columns)) + "\n"
        self._warn = warn
        self._file: int | None = None
        self._stopped = False
        self._samples, self._rows = samples, rows
        self._counted_samples = self._counted_rows = 0
        self._stride = 1
        self._ticks = -1

    def due(self) -> bool:
        """Count one interval of the recording; return whether this file wants a sample now."""
        self._ticks += 1
        return not self._stopped and self._ticks % self._stride == 0

    def write(self, time_ns: int, rows: Iterable[Sequence[Cell]]) -> None:
        """Append a sample: a row for each part of it."""
        lines = [",".join((str(time_ns), *map(cell, row))) + "\n" for row in rows]
        if not lines or self._stopped:
            return
        try:
            self._append("".join(lines).encode())
        except OSError as error:
            self.close()
            self._warn(f"{self.path.name} ends early: {error.strerror or error}")
            return
        self._counted_samples += 1
        self._counted_rows += len(lines)
        if self._counted_samples >= self._samples or self._counted_rows >= self._rows:
            self._stride *= 2
            self._counted_samples = self._counted_rows = 0

    def _append(self, data: bytes) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._file).st_size
            if size == 0:
                data = self._header.encode() + data
            elif os.pread(self._file, 1, size - 1) != b"\n":  # whoever wrote it was cut off in a row
                data = b"\n" + data
        append(self._file, data)

    def close(self) -> None:
        """Write nothing any more."""
        self._stopped = True
        if self._file is not None:
            os.close(self._file)
            self._file = None


def append(file: int, data: bytes) -> None:
    """Append all of it or nothing.

    Raises:
        OSError: the file cannot grow; it is as it was.
    """
    size = os.fstat(file).st_size
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.ftruncate(file, size)
        raise
