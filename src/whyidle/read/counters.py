"""Counters that were sampled beside a job: gpu.csv, host.csv and processes.csv, a series per column and subject."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from whyidle.model.evidence import Series
from whyidle.read.blocks import content_of

MOST_BYTES: Final = 64 << 20  # of a file; of a longer one the latest samples are read
FILES: Final = {"gpu.csv": "gpu", "host.csv": "", "processes.csv": "pid"}  # the column that tells of what a row is
NOT_NUMBERS: Final = {"time_ns", "role"}
MOST_COLUMNS: Final = 64
LATEST: Final = 1 << 62  # ns
LARGEST: Final = 1e18  # a counter beyond that is damage

Key = tuple[int | None, str]


def read_counters(path: Path, node: str, warnings: list[str]) -> Iterator[Series]:
    """Yield the series of a file, by subject and column. Rows that are damaged or half written are left out."""
    try:
        content, size = content_of(path, MOST_BYTES, last=True)
        header = content_of(path, 4096)[0].partition(b"\n")[0] if size > MOST_BYTES else b""
    except OSError as error:
        warnings.append(f"{path}: cannot be read: {error.strerror or error}.")
        return
    if size > MOST_BYTES:
        warnings.append(f"{path}: of {size >> 20:,} MiB of samples the last {MOST_BYTES >> 20} are read.")
        content = header + b"\n" + content.partition(b"\n")[2]
    content = content[: content.rfind(b"\n") + 1]  # what comes after it is being written, or was cut off
    lines = content.decode("utf-8", "replace").replace("\0", "").splitlines()
    names = lines[0].split(",") if lines else []
    if not lines:
        return
    of = FILES[path.name]
    if "time_ns" not in names or (of and of not in names) or not 1 < len(names) <= MOST_COLUMNS:
        warnings.append(f"{path}: not counters of whyidle: left out.")
        return
    columns = [name for name in names if name not in NOT_NUMBERS and name != of]
    tables, broken = _tables(lines[1:], names, columns, of)
    if broken:
        warnings.append(f"{path}: {broken:,} of {len(lines) - 1:,} samples are damaged and left out.")
    for (subject, role), (time, values) in tables.items():
        order = np.argsort(time, kind="stable")
        table = np.asarray(values, np.float64).reshape(-1, len(columns))[order]
        table[~(np.abs(table) <= LARGEST)] = np.nan
        for column, name in enumerate(columns):
            if not np.isnan(table[:, column]).all():
                device, pid = (subject, None) if of == "gpu" else (None, subject)
                yield Series(name, node, np.asarray(time, np.int64)[order], table[:, column], device, pid, role)


def _tables(
    lines: list[str], names: list[str], columns: list[str], of: str
) -> tuple[dict[Key, tuple[array[int], array[float]]], int]:
    """Return for each subject its times and its numbers, row after row; and how many rows are damaged."""
    tables: dict[Key, tuple[array[int], array[float]]] = {}
    places = [names.index(name) for name in columns]
    when, whose = names.index("time_ns"), names.index(of) if of else -1
    role = names.index("role") if "role" in names else -1
    broken = 0
    for row in csv.reader(lines, quoting=csv.QUOTE_NONE):
        try:
            time = int(row[when])
            subject = int(row[whose]) if of else None
            numbers = [float(row[place]) if row[place] else np.nan for place in places]
        except (ValueError, IndexError):
            broken += 1
            continue
        if len(row) != len(names) or not 0 <= time < LATEST or not (subject is None or 0 <= subject < LATEST):
            broken += 1
            continue
        times, values = tables.setdefault((subject, row[role] if role >= 0 else ""), (array("q"), array("d")))
        times.append(time)
        values.extend(numbers)
    return tables, broken
