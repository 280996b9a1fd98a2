"""nvidia-smi --query-gpu=… --format=csv, with and without units and header."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.blocks import Blocks
from whyidle.read.generic_csv import layout_of
from whyidle.read.table.curve import curve_of, still_there, with_damage
from whyidle.read.table.gather import Collector
from whyidle.read.table.opening import behind, header_in, opened
from whyidle.read.table.rows import Cutter, split_line

COUNTERS: Final = re.compile(
    r"(?:utilization\.(?:gpu|memory)|memory\.used|power\.draw(?:\.\w+)?|temperature\.gpu|clocks\.(?:current\.)?(?:sm|gr))"
    r"(?: \[[^\]]*\])?"
)
STAMP: Final = rb"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}"
CELL: Final = (
    rb"[ \t]*(?:[\d.]+(?: (?:%|MiB|W|MHz))?|0x[0-9a-fA-F]+|\[[^\],\n]*\]|P\d+|GPU-[\w-]+"
    rb"|(?:NVIDIA|Tesla|GeForce)[^,\n]*)[ \t]*"
)
# a first line without header: nvidia-smi's timestamp or a cell in %, and cells as it prints them
BARE: Final = re.compile(
    rb"(?=" + STAMP + rb"[ \t]*,|[^\n]*\d %[ \t]*[,\r\n])(?:" + STAMP + rb"|" + CELL + rb")(?:," + CELL + rb")+\r?\n"
)
UNIT: Final = re.compile(rb"(?:[\d.]+|\[[^\]]*\]) ?(%|MiB|W)?")
RECORD_QUERY: Final = (
    "nvidia-smi --query-gpu=timestamp,index,utilization.gpu,utilization.memory,memory.used,power.draw,clocks.sm,"
    "clocks_event_reasons.active --format=csv -l 1 > gpus.csv"
)


class SmiQuery(Reader):
    """Reads what `nvidia-smi --query-gpu` prints as CSV."""

    kind = "nvidia-smi query"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        return header_in(head, is_query) is not None or BARE.match(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """Read the file; UnreadableError where it has no row, or nothing tells what its columns are."""
        blocks = Blocks(path, progress)
        return with_damage(still_there(_read(blocks, path), path), blocks)


def is_query(header: list[str]) -> bool:
    """Say whether these are columns of nvidia-smi."""
    return len(header) > 1 and any(COUNTERS.fullmatch(cell.strip()) for cell in header)


def _read(blocks: Iterable[bytes], path: Path) -> Curve | None:
    first, pieces = opened(blocks)
    found = header_in(first[: 1 << 16], is_query)
    assumed, delimiter = "", b","
    if found is None:
        if BARE.match(first) is None:
            return None
        at, header = 0, _betrayed(first, path)
        assumed = "no header: the only column in % is taken as utilization.gpu."
    else:
        at, header, delimiter = found
    lines = [split_line(line, delimiter) for line in first[at : at + (1 << 16)].splitlines()[:20]]
    rows = [row for row in lines if len(row) == len(header)]
    layout = layout_of(header, rows, query=True)
    cutter = Cutter(delimiter, len(header), header=tuple(cell.encode() for cell in header))
    curve = curve_of(
        behind(pieces, at),
        cutter,
        Collector(layout),
        path,
        SmiQuery.kind,
        "nvidia-smi --query-gpu",
        one_after_the_other=True,
    )
    if assumed:
        curve = replace(curve, warnings=(f"{path}: {assumed}", *curve.warnings))
    return curve


def _betrayed(first: bytes, path: Path) -> list[str]:
    """Return a header for rows that have none, from their units.

    Raises:
        UnreadableError: they do not tell which column is the utilization.
    """
    rows = [split_line(line, b",") for line in first[: 1 << 16].splitlines()[:200] if line.strip()]
    rows = [row for row in rows if len(row) == len(rows[0])]
    header = []
    for column in zip(*rows, strict=True):
        units = {match[1] or b"" for cell in column if (match := UNIT.fullmatch(cell)) and not cell.startswith(b"[")}
        if all(re.fullmatch(STAMP, cell) for cell in column):
            header.append("timestamp")
        elif all(cell.startswith(b"GPU-") for cell in column):
            header.append("uuid")
        elif _counts_up(list(column)):
            header.append("index")
        else:
            header.append({b"%": "%", b"MiB": "MiB", b"W": "W"}.get(units.pop() if len(units) == 1 else b"", "?"))
    if header.count("%") != 1:
        why = "nvidia-smi's query without header: nothing tells which column is the utilization."
        raise UnreadableError(path, why, f"Record with a header (no `noheader`): {RECORD_QUERY}", damaged=True)
    alone = {"%": "utilization.gpu [%]", "MiB": "memory.used", "W": "power.draw"}
    return [alone[name] if name in alone and header.count(name) == 1 else name for name in header]


def _counts_up(cells: list[bytes]) -> bool:
    """Say whether cells go 0, 1, 2, 0, 1, 2, as the numbers of GPUs do."""
    if not all(cell.isdigit() and len(cell) < 4 for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    gpus = max(numbers) + 1
    return len(cells) > gpus > 1 and numbers == [index % gpus for index in range(len(cells))]
