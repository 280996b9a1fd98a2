"""What nvidia-smi's two monitors share, dmon and pmon: a header behind a hash, repeated now and then, and rows."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader
from whyidle.read.blocks import Blocks
from whyidle.read.table.curve import curve_of, still_there, with_damage
from whyidle.read.table.gather import Collector, Layout
from whyidle.read.table.opening import LINES_BEFORE, behind, opened
from whyidle.read.table.rows import WHITESPACE, Cutter, split_line


class Monitor(Reader, ABC):
    """Reads what a monitor prints or writes (-f), as text or CSV."""

    header: ClassVar[re.Pattern[bytes]]  # a line that names the columns
    last: ClassVar[frozenset[str]] = frozenset()  # names of a last column whose cells may hold blanks

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        return any(cls.header.match(line) for line in head.splitlines()[:LINES_BEFORE])

    @classmethod
    @abstractmethod
    def layout(cls, names: list[str], units: list[str], path: Path) -> Layout:
        """Return which columns are read; UnreadableError where none is known. `units` is empty where none are told."""

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """Read the file; UnreadableError where it has no row, or no column that is known."""
        blocks = Blocks(path, progress)
        return with_damage(still_there(self.printed(blocks, path), path), blocks)

    @classmethod
    def printed(cls, blocks: Iterable[bytes], path: Path) -> Curve | None:
        """Return the curve in what was printed; None where there is no header. UnreadableError as `read`."""
        first, pieces = opened(blocks)
        match = cls.header.search(first)
        if match is None:
            return None
        delimiter = b"," if b"," in match[0] else WHITESPACE
        names = _words(match[0], delimiter)
        units = _words(first[match.end() :].lstrip().split(b"\n", 1)[0], delimiter)
        layout = cls.layout(names, units if len(units) == len(names) else [], path)
        cutter = Cutter(delimiter, len(names), comment=b"#", trailing=names[-1] in cls.last)
        return curve_of(behind(pieces, match.end()), cutter, Collector(layout), path, cls.kind, cls.kind)


def time_columns(names: list[str]) -> tuple[int | None, int | None, str]:
    """Return the columns of time and date (-o DT), and how times are written. A date alone is no time."""
    if "time" not in names:
        return None, None, ""
    return names.index("time"), names.index("date") if "date" in names else None, "clock"


def instance_column(names: list[str]) -> dict[str, int]:
    """Return the column that tells the instances of a split GPU (MIG) apart, where there is one."""
    return next(({"instance": names.index(name)} for name in ("gi", "mig") if name in names), {})


def _words(line: bytes, delimiter: bytes) -> list[str]:
    """Return the words of a header line, which begins with a hash."""
    cells = split_line(line.strip().lstrip(b"#"), delimiter)
    return [cell.decode("ascii", "replace").lower() for cell in cells]
