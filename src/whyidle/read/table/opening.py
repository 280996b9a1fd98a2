"""The first lines of a table: what separates its columns, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from whyidle.read.table.rows import WHITESPACE, lines, split_line

LINES_BEFORE: Final = 10  # that may stand before a header: comments, blank lines, what a shell printed
LONGEST_HEADER: Final = 1 << 15  # bytes: 220 columns of nvidia-smi take 8 KiB
DELIMITERS: Final = (b",", b";", b"\t", b"|")


def delimiter_of(line: bytes) -> bytes:
    """Return what separates the cells of a line: the delimiter that it has most often, else blanks."""
    most = max(DELIMITERS, key=line.count)
    return most if line.count(most) else WHITESPACE


def header_in(head: bytes, wanted: Callable[[list[str]], bool]) -> tuple[int, list[str], bytes] | None:
    """Return the header among the first lines: where its line ends, its cells, the delimiter; None: there is none."""
    at = 0
    all_lines = head.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    for number, line in enumerate(all_lines[:LINES_BEFORE]):
        at += len(line)
        if len(line) > LONGEST_HEADER:
            continue
        delimiter = delimiter_of(line)
        cells = [cell.decode("utf-8", "replace") for cell in split_line(line.strip(), delimiter)]
        following = next((other for other in all_lines[number + 1 : number + 2] if other.strip()), b"")
        prose = delimiter == WHITESPACE and len(following.split()) != len(cells)  # words, but no table
        if not prose and wanted(cells):
            return at, cells, delimiter
    return None


def opened(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first lines, and everything in pieces of whole lines."""
    pieces = lines(blocks)
    first = next(pieces, b"")
    return first, chain([first], pieces)


def behind(pieces: Iterator[bytes], at: int) -> Iterator[bytes]:
    """Leave out the first bytes of what `opened` returned."""
    yield next(pieces)[at:]
    yield from pieces
