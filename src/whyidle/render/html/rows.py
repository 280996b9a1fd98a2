"""What the pages list: a line with a bar, a line of a table, a number with its name."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.render.html.whiskers import Whisker


@dataclass(frozen=True, slots=True)
class BarRow:
    """A line with a bar; `why` stands in its place where nothing was measured."""

    name: str
    whisker: Whisker | None
    value: str = ""
    chosen: bool = False
    mark: str = ""  # a word behind the name: "take this"
    why: str = ""
    note: str = ""  # below its name
    limit: float | None = None  # where a line stands that is this row's own, percent


@dataclass(frozen=True, slots=True)
class Jump:
    """A stretch of a timeline, ns as it counts."""

    timeline: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """A line of a table; the last cell may span several columns."""

    cells: tuple[str, ...]
    chosen: bool = False
    mark: str = ""
    spans: int = 1
    jump: Jump | None = None  # where its first cell leads


@dataclass(frozen=True, slots=True)
class Item:
    """A number with its name, and a few words behind it."""

    label: str
    value: str
    note: str = ""
