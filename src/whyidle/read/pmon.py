"""nvidia-smi pmon: what each process took of a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.blocks import Blocks
from whyidle.read.dmon import cells_of, instance_column, time_columns
from whyidle.read.table.curve import curve_of, still_there, with_damage
from whyidle.read.table.gather import Collector, Layout
from whyidle.read.table.names import Meaning
from whyidle.read.table.opening import LINES_BEFORE, behind, opened
from whyidle.read.table.rows import WHITESPACE, Cutter

HEADER: Final = re.compile(
    rb"^[ \t]*#[ \t]*(?:(?:Date|Time)[ \t,]+)*gpu[ \t,]+(?:\S+[ \t,]+)?pid\b[^\n]*", re.MULTILINE
)
RECORD_PMON: Final = "nvidia-smi pmon -s u -o DT > pmon.txt"


class Pmon(Reader):
    """Reads what `nvidia-smi pmon` prints or writes (-f)."""

    kind = "nvidia-smi pmon"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        return any(HEADER.match(line) for line in head.splitlines()[:LINES_BEFORE])

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """Read the file; UnreadableError where it has no process, or no column that is known."""
        blocks = Blocks(path, progress)
        return still_there(_read(blocks, path, blocks), path)


def parse(content: bytes, path: Path) -> Curve | None:
    """Return the curve in what pmon printed; None where there is no header of pmon. UnreadableError as Pmon.read."""
    return _read([content], path)


def _read(blocks: Iterable[bytes], path: Path, file: Blocks | None = None) -> Curve | None:
    first, pieces = opened(blocks)
    match = HEADER.search(first)
    if match is None:
        return None
    delimiter = b"," if b"," in match[0] else WHITESPACE
    names = cells_of(match[0], delimiter)
    if "sm" not in names:
        raise UnreadableError(path, "nvidia-smi pmon without utilization (-s m).", RECORD_PMON)
    keys = {"device": names.index("gpu"), "pid": names.index("pid")} | instance_column(names)
    busy = {names.index("sm"): Meaning("process_utilization_percent", share=False)}
    layout = Layout(busy, *time_columns(names), keys=keys)
    cutter = Cutter(delimiter, len(names), comment=b"#", trailing=names[-1] in {"command", "name"})
    curve = curve_of(behind(pieces, match.end()), cutter, Collector(layout), path, Pmon.kind, "nvidia-smi pmon")
    if not curve.series:
        raise UnreadableError(path, "nvidia-smi pmon saw no process on any GPU.", RECORD_PMON)
    return with_damage(curve, file)
