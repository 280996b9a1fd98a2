"""The tables behind the numbers at a terminal, for who wants to look further (`--all`)."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from whyidle.model.finding import Report
from whyidle.render.lines import hang
from whyidle.render.rows import Row, Table, facts, settings, tables
from whyidle.render.words import clean, shorten


def details(report: Report, width: int) -> Iterator[Text]:
    """Yield the numbers and the tables that there is something for."""
    told = facts(report) | {
        "settings": ", ".join(f"{name}={value}" for name, value in settings(report).items()),
        "evidence": "; ".join(f"{clean(file.path)} ({clean(file.kind)})" for file in report.run.evidence),
    }
    yield Text()
    for name, fact in told.items():
        if fact:
            yield from hang(Text(f"  {name:<15}", style="dim"), Text(fact), width)
    for table in tables(report.detail):
        yield from _drawn(table, width)


def _drawn(table: Table, width: int) -> Iterator[Text]:
    """Yield a table whose first column takes what room the others leave."""
    rows = (Row((table.title, *table.columns)), *table.rows)
    sizes = [max(len(row.cells[column]) for row in rows) for column in range(1, len(rows[0].cells))]
    first = min(max(len(row.cells[0]) for row in rows), width - 4 - sum(sizes) - 2 * len(sizes))
    yield Text()
    for index, row in enumerate(rows):
        cells = "".join(f"  {cell:>{size}}" for cell, size in zip(row.cells[1:], sizes, strict=True))
        yield Text(f"  {shorten(row.cells[0], first):<{first}}{cells}", style="bold" if index == 0 else "")
