"""Which file of source is it that a recording names?

A recording names files in its own way: below a folder that it does not tell, of another machine, cells by a hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from whyidle.lint.notebook import restored
from whyidle.lint.source import Source, lines_of

# A cell of a notebook, as IPython names it: by a hash of what it holds.
CELL = re.compile(r"<ipython-input-\d+-(\w+)>$|.*ipykernel_\d+[/\\](\d+)\.py$")
SEED = 0xC70F6907  # of ipykernel's hash
WORD = 0xFFFFFFFF


@dataclass(slots=True)
class Files:
    """All files of source that a recording may name."""

    sources: Sequence[Source]
    _cells: dict[str, list[tuple[str, int]]] = field(init=False)  # by hash: the notebook, lines before the cell
    _known: dict[str, tuple[str, int] | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._cells = {}
        for source in self.sources:
            for before, hashes in cells_of(source):
                for one in hashes:
                    self._cells.setdefault(one, []).append((source.name, before))

    def name_of(self, recorded: str) -> str | None:
        """Return the name of the source that a recorded path means; None where it is none, or any of several."""
        found = self._found(recorded)
        return None if found is None else found[0]

    def place(self, recorded: str, line: int) -> tuple[str, int] | None:
        """Return the name of the source and the line in its text that a recorded line means."""
        found = self._found(recorded)
        return None if found is None else (found[0], found[1] + line)

    def _found(self, recorded: str) -> tuple[str, int] | None:
        if recorded not in self._known:
            found = self._look(recorded)
            self._known[recorded] = found[0] if len(found) == 1 else None
        return self._known[recorded]

    def _look(self, recorded: str) -> list[tuple[str, int]]:
        if cell := CELL.match(recorded):
            return self._cells.get(cell[1] or cell[2], [])
        alike = [(shared(recorded, source), source.name) for source in self.sources]
        most = max((count for count, _ in alike), default=0)
        return [(name, 0) for count, name in alike if count == most > 0]


def shared(recorded: str, source: Source) -> int:
    """Return how many last parts a recorded path shares with that of a file; 0: it is another one.

    The shorter of the two ends the longer one. A recording may have been made elsewhere: of an absolute path the name
    of the file and of its folder have to do.
    """
    named = PurePosixPath(source.name).parts
    path = source.path.parts if common_end(source.path.parts, named) == len(named) else named
    other = PurePosixPath(recorded.replace("\\", "/"))
    if not other.parts:
        return 0
    same = common_end(other.parts, path)
    absolute = other.is_absolute() or ":" in other.parts[0]
    return same if same == min(len(other.parts), len(path)) or (absolute and same > 1) else 0


def common_end(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many last parts two paths share."""
    count = 0
    for mine, yours in zip(reversed(one), reversed(other), strict=False):
        if mine != yours:
            break
        count += 1
    return count


def cells_of(source: Source) -> Iterator[tuple[int, Iterable[str]]]:
    """Yield for each cell of a notebook the lines before it in the text, and the hashes that IPython may name."""
    if not source.cells:
        return
    lines = [restored(line) for line in lines_of(source.text)]
    ends = [*(first - 1 for first, _ in source.cells[1:]), len(lines) - 1]  # the text ends in an empty line
    for (first, _), end in zip(source.cells, ends, strict=True):
        code = "\n".join(lines[first - 1 : end])
        if code.strip():
            yield first - 1, (str(murmur(code.encode())), *map(short, (code, code + "\n")))


def short(code: str) -> str:
    """Return the hash by which IPython without a kernel names a cell."""
    return hashlib.sha1(code.encode(), usedforsecurity=False).hexdigest()[:12]


def murmur(data: bytes) -> int:
    """Return the hash by which ipykernel names a cell: MurmurHash2 in 32 bits (public domain, A. Appleby)."""
    factor, value = 0x5BD1E995, SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & WORD
        value = value * factor & WORD ^ (word ^ word >> 24) * factor & WORD
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & WORD
    value = (value ^ value >> 13) * factor & WORD
    return value ^ value >> 15
