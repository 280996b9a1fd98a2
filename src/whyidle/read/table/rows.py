"""Text in blocks, cut into rows and cells. A row that does not fit is left out and counted, never guessed at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Ints
from whyidle.read.table.cells import Cells, Text

BLOCK: Final = 1 << 21  # bytes that are cut at once: what is made of them stays in the processor's cache
LONGEST_LINE: Final = 1 << 20  # bytes; what is longer is no row of a table
NEWLINE: Final = ord("\n")
QUOTE: Final = ord('"')
BLANK_OR_LESS: Final = ord(" ")  # space, tab, carriage return
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
WHITESPACE: Final = b""  # as a delimiter: runs of blanks, as nvidia-smi dmon pads its columns


def lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content in pieces of whole lines of about BLOCK bytes, the last with a line break, too."""
    pending: list[bytes] = []
    size = 0
    first = True
    for block in blocks:
        pending.append(block.removeprefix(BYTE_ORDER_MARK) if first else block)
        size += len(block)
        first = False
        if size < BLOCK:
            continue
        joined = b"".join(pending)
        cut = joined.rfind(b"\n") + 1
        if cut:
            yield joined[:cut]
        left = joined[cut:] if len(joined) - cut <= LONGEST_LINE else b""
        pending, size = [left], len(left)
    if last := b"".join(pending):
        yield last if last.endswith(b"\n") else last + b"\n"


def split_line(line: bytes, delimiter: bytes) -> list[bytes]:
    """Return the cells of one line, of a header; quotes and blanks around them are gone."""
    if delimiter == WHITESPACE:
        return line.split()
    cells: list[bytes] = []
    quoted = False
    start = 0
    for index in range(len(line)):
        if line[index] == QUOTE:
            quoted = not quoted
        elif line[index : index + 1] == delimiter and not quoted:
            cells.append(line[start:index])
            start = index + 1
    return [cell.strip(b' \t\r"') for cell in (*cells, line[start:])]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one block that have all columns."""

    text: Text
    separators: Ints  # where cells end; of a table of words the ends of words
    starts: Ints | None  # where cells begin, only of a table of words; else behind the separator before
    last: Ints  # of each row: index into separators of its last cell
    columns: int

    def __len__(self) -> int:
        return len(self.last)

    def some(self, rows: Ints | NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        return replace(self, last=self.last[rows])

    def column(self, index: int) -> Cells:
        """Return the cells of a column."""
        at = self.last - (self.columns - 1 - index)
        end = self.separators[at]
        if self.starts is not None:
            return Cells(self.text, self.starts[at], end)
        before = np.where(at > 0, self.separators[at - 1], -1)
        return Cells(self.text, before + 1, end).trimmed()


@dataclass(slots=True)
class Cutter:
    """Cuts lines into rows of a known number of columns; counts what it leaves out."""

    delimiter: bytes
    columns: int
    header: tuple[bytes, ...] = ()  # its cells: a line that repeats it is no data, and not counted
    comment: bytes = b""  # a line that starts with it is no data, and not counted
    trailing: bool = False  # the last column holds free text, with blanks: it ends with the line
    left_out: int = 0
    samples: list[bytes] = field(default_factory=list)  # the first lines that were left out

    def cut(self, content: bytes) -> Rows:
        """Return the rows of whole lines."""
        text = Text.of(content)
        data = text.data[: len(content)]
        newline = data == NEWLINE
        breaks = np.flatnonzero(newline)
        if self.delimiter == WHITESPACE:
            return self._words(text, data, breaks)
        return self._delimited(text, data, newline, breaks)

    def _delimited(self, text: Text, data: NDArray[np.uint8], newline: NDArray[np.bool_], breaks: Ints) -> Rows:
        separators = np.flatnonzero(newline | (data == ord(self.delimiter)))
        if QUOTE in text.content:
            separators = self._outside_quotes(data, separators, breaks)
        last = np.arange(self.columns - 1, len(separators), self.columns)
        if len(separators) != len(breaks) * self.columns or not np.array_equal(separators[last], breaks):
            last = np.searchsorted(separators, breaks)  # some rows do not fit
        fits = np.diff(last, prepend=-1) == self.columns
        return self._fitting(text, separators, None, last, fits, breaks)

    @staticmethod
    def _outside_quotes(data: NDArray[np.uint8], separators: Ints, breaks: Ints) -> Ints:
        """Leave out delimiters between quotes. A line break ends every quote: a lost one costs its own row only."""
        quotes = np.cumsum(data == QUOTE, dtype=np.int32)
        line = np.searchsorted(breaks, separators)
        before = np.where(line > 0, quotes[breaks[line - 1]], 0)
        inside = (quotes[separators] - before) & 1
        outside: NDArray[np.bool_] = (inside == 0) | (data[separators] == NEWLINE)
        return separators[outside]

    def _words(self, text: Text, data: NDArray[np.uint8], breaks: Ints) -> Rows:
        edges = np.diff((data > BLANK_OR_LESS).view(np.int8), prepend=np.int8(0), append=np.int8(0))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        last = np.searchsorted(starts, breaks) - 1
        count = np.diff(last, prepend=-1)
        fits = count == self.columns
        if self.trailing:  # of a command with blanks only its first word
            fits |= count > self.columns
            last = last - np.where(fits, count - self.columns, 0)
        return self._fitting(text, ends, starts, last, fits, breaks)

    def _fitting(
        self, text: Text, separators: Ints, starts: Ints | None, last: Ints, fits: NDArray[np.bool_], breaks: Ints
    ) -> Rows:
        for line in np.flatnonzero(~fits).tolist():
            content = text.content[(breaks[line - 1] + 1 if line else 0) : breaks[line]].strip()
            self._leave_out(content)
        rows = Rows(text, separators, starts, last[fits], self.columns)
        if self.comment and len(rows):
            first = rows.column(0).start
            rows = rows.some(text.data[first] != ord(self.comment))
        elif self.header and len(rows):
            repeated = rows.column(0).equal(self.header[0])
            for index, cell in enumerate(self.header[1:] if repeated.any() else ()):
                repeated &= rows.column(index + 1).equal(cell)
            rows = rows.some(~repeated)
        return rows

    def _leave_out(self, line: bytes) -> None:
        if not line or (self.comment and line.startswith(self.comment)):
            return
        self.left_out += 1
        if len(self.samples) < 3:
            self.samples.append(line[:80])
