"""Counters of GPUs as JSON objects, a line or a document each: gpustat --json, Telegraf, W&B's events, one's own.

They are rows of a table that name their columns, and are read as that table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.generic_csv import has_curve, parse
from whyidle.read.samples import text_of

GPUS: Final = "gpus"  # gpustat: a row each
MOST_COLUMNS: Final = 2000
DEEPEST: Final = 4  # objects within objects
MOST_BROKEN: Final = 1000  # places that are no JSON
NEXT: Final = re.compile(r"^[ \t]*(?=[{\[])", re.MULTILINE)
OF_A_TRACE: Final = re.compile(r'"(?:ph|traceEvents)"\s*:')
OBJECT: Final = re.compile(r"(?=\{)")
Cell = bool | int | float | str | None


class JsonRows(Reader):
    """A file of JSON objects that hold a time and the utilization of GPUs."""

    kind = "JSON samples"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        text = head.decode("utf-8-sig", "replace").lstrip()
        if not text.startswith(("{", "[")) or OF_A_TRACE.search(text):
            return False
        return any(has_curve(list(row)) for row, _ in zip(_rows(text, []), range(3), strict=False))

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. What is no object of counters is left out, and counted."""
        warnings: list[str] = []
        broken: list[int] = []
        rows = list(_rows(text_of(path, warnings, progress), broken))
        columns = list(dict.fromkeys(name for row in rows for name in row))[:MOST_COLUMNS]
        table = [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]
        curve = parse("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in table).encode(), path)
        if curve is None:
            raise UnreadableError(path, "JSON samples that do not all have a time.", damaged=True)
        if broken:
            warnings.append(f"{path}: {len(broken):,} places are no JSON, or cut short; left out.")
        return replace(curve, kind=self.kind, warnings=(*warnings, *curve.warnings))


def _rows(text: str, broken: list[int]) -> Iterator[dict[str, Cell]]:
    """Yield the objects of a text, of those that list GPUs one for each; note where there is damage."""
    decoder = json.JSONDecoder()
    at, following = 0, NEXT
    while len(broken) < MOST_BROKEN and (start := following.search(text, at)) is not None:
        try:
            told, at = decoder.raw_decode(text, start.end())
        except (ValueError, RecursionError):
            at = start.end() + 1
            following = OBJECT if text[at - 1] == "[" else following  # of a list that is cut short the rows are there
            broken.append(at)
            continue
        for one in told if isinstance(told, list) else [told]:
            if isinstance(one, dict):
                yield from _each(one)


def _each(told: dict[str, object]) -> Iterator[dict[str, Cell]]:
    gpus = told.get(GPUS)
    if not isinstance(gpus, list):
        yield _flat(told)
        return
    shared = {name: value for name, value in told.items() if not isinstance(value, list | dict)}
    for gpu in gpus:
        if isinstance(gpu, dict):
            yield _flat({**shared, **{"gpu name" if name == "name" else name: value for name, value in gpu.items()}})


def _flat(told: dict[str, object], depth: int = 0) -> dict[str, Cell]:
    """Return the values of an object and of those within it, by their own names."""
    row: dict[str, Cell] = {}
    for name, value in told.items():
        if isinstance(value, dict) and depth < DEEPEST:
            row = {**_flat(value, depth + 1), **row}
        elif value is None or isinstance(value, bool | int | float | str):
            row[name.replace('"', "").replace("\n", " ")] = value
    return row


def _cell(value: Cell) -> str:
    """Return a value as a cell of a table: its start, on one line."""
    return "" if value is None else str(value)[:256].replace('"', "").replace("\n", " ").replace("\r", " ")
