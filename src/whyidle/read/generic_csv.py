"""Anybody's CSV that has a time and a utilization column, one row per GPU or one column per GPU (W&B, MLflow)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.blocks import Blocks
from whyidle.read.table import names as known
from whyidle.read.table.curve import curve_of, still_there, with_damage
from whyidle.read.table.gather import Collector, Layout
from whyidle.read.table.opening import behind, header_in, opened
from whyidle.read.table.rows import WHITESPACE, Cutter, split_line
from whyidle.read.table.times import DATE, way_of

KEYS: Final = (
    ("instance", known.INSTANCE),
    ("host", known.HOST),
    ("device", known.DEVICE),
    ("uuid", known.UUID),
)
ROWS_LOOKED_AT: Final = 20
COLUMNS: Final = "time,gpu,utilization_percent as the first line tells whyidle what the columns are."


class GenericCsv(Reader):
    """Reads tables whose header names a time and the utilization of GPUs."""

    kind = "CSV"
    greedy = True

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        return header_in(head, has_curve) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """Read the file; UnreadableError where it has no row with a time."""
        blocks = Blocks(path, progress)
        return still_there(_read(blocks, path, blocks), path)


def parse(content: bytes, path: Path) -> Curve | None:
    """Return the curve in a table; None where no header names time and utilization. UnreadableError as the reader."""
    return _read([content], path)


def has_curve(header: list[str]) -> bool:
    """Say whether these columns hold a time and the utilization of a GPU."""
    words = [known.plain(cell) for cell in header]
    busy = any(
        meaning.name == "utilization_percent" for cell in header if (meaning := known.meaning_of(cell)) is not None
    )
    return busy and any(known.time_unit(word) is not None for word in words)


def _read(blocks: Iterable[bytes], path: Path, file: Blocks | None = None) -> Curve | None:
    first, pieces = opened(blocks)
    found = header_in(first[: 1 << 16], has_curve)
    if found is None:
        return None
    at, header, delimiter = found
    content = behind(pieces, at)
    sample = first[at : at + (1 << 16)]
    if delimiter == b";":
        content, sample = _with_points(content), next(_with_points(iter([sample])))
    rows = [split_line(line, delimiter) for line in sample.splitlines()[:ROWS_LOOKED_AT]]
    rows = [row for row in rows if len(row) == len(header)]
    layout = layout_of(header, rows)
    if layout.time is None:
        if not rows:
            raise UnreadableError(path, "a header and no rows: nothing was recorded.", COLUMNS, damaged=True)
        raise UnreadableError(path, "its times are written in no way that whyidle knows.", COLUMNS, damaged=True)
    repeated = tuple(cell.encode() for cell in header) if delimiter != WHITESPACE else ()
    cutter = Cutter(delimiter, len(header), header=repeated)
    curve = curve_of(content, cutter, Collector(layout), path, GenericCsv.kind, path.name)
    if more := known.repeated([known.meaning_of(cell) for cell in header]):
        said = f"{path}: {more:,} columns repeat what an earlier one holds, as of another run; not read."
        curve = replace(curve, warnings=(said, *curve.warnings))
    return with_damage(curve, file)


def _with_points(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Where a semicolon separates cells a comma separates decimals, as spreadsheets write it in half of Europe."""
    for piece in pieces:
        yield piece.replace(b",", b".")


def layout_of(header: list[str], rows: list[list[bytes]], query: bool = False) -> Layout:
    """Return which columns are read. Of several times a date is preferred, then seconds since 1970, then the rest.

    Args:
        header: names of the columns.
        rows: some rows, which tell how times are written.
        query: nvidia-smi wrote it: memory is in MiB, and a name is that of the GPU.
    """
    words = [known.plain(cell) for cell in header]
    values = known.one_each([known.meaning_of(cell, query) for cell in header])
    keys: dict[str, int] = {}
    for name, pattern in KEYS:
        index = next((i for i, word in enumerate(words) if i not in values and pattern.fullmatch(word)), None)
        if index is not None:
            keys[name] = index
    if any(meaning.device is not None for meaning in values.values()):
        keys.pop("device", None)
    if "device" in keys or any(meaning.device is not None for meaning in values.values()):
        keys.pop("uuid", None)
    time, way, unit = _time(words, rows, set(values))
    day = _day(words, rows) if way == "clock" else None
    model = next((i for i, word in enumerate(words) if known.MODEL.fullmatch(word) or (word == "name" and query)), None)
    return Layout(values, time, day, way, unit, keys, model)


def _day(words: list[str], rows: list[list[bytes]]) -> int | None:
    """Return the column of the date, where it stands apart from the time."""
    dated = (index for index, word in enumerate(words) if word in {"date", "day"})
    return next((index for index in dated if rows and DATE.fullmatch(rows[0][index])), None)


def _time(words: list[str], rows: list[list[bytes]], taken: set[int]) -> tuple[int | None, str, float]:
    best: tuple[int, int, str, float] | None = None
    for index, word in enumerate(words):
        unit = known.time_unit(word)
        if unit is None or index in taken:
            continue
        way = next((way for row in rows if (way := way_of(row[index]))), "")
        epoch = way == "number" and any(re.match(rb"\d{9,}", row[index]) for row in rows)
        rank = ["date", "epoch", "number", "clock"].index("epoch" if epoch else way) if way else 9
        if way and (best is None or rank < best[0]):
            best = rank, index, way, unit
    return (best[1], best[2], best[3]) if best else (None, "", 0.0)
