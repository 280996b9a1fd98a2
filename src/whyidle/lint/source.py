"""A file of source code: its text as lines, its tree, and where a line of a notebook stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A file that was parsed. Lines count from 1 in `text`; of a notebook, its code cells one after the other."""

    path: Path
    name: str  # as reports call it: relative to where the user stands, with slashes
    text: str
    tree: ast.Module
    cells: tuple[tuple[int, int], ...] = ()  # of a notebook: first line in `text`, number of the cell in the file
    newline: str = "\n"
    bom: bool = False
    encoding: str = "utf-8"
    # Lines with `# whyidle: ignore[...]`, 0 for the whole file, and the rules, checks or families named; empty: all.
    ignored: dict[int, frozenset[str]] = field(default_factory=dict)
    nodes: dict[type[ast.AST], list[ast.AST]] = field(default_factory=dict, repr=False)  # see `nodes.every`

    def line(self, number: int) -> str:
        """Return a line of the text without its indent; "" past its end."""
        lines = lines_of(self.text)
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def code(self, node: ast.expr) -> str | None:
        """Return an expression as it stands in the text; None where its place is not known."""
        if node.end_lineno != node.lineno:
            return ast.get_source_segment(self.text, node)  # which takes all lines apart to find one
        line = lines_of(self.text)[node.lineno - 1].encode("utf-8", "surrogatepass")
        return line[node.col_offset : node.end_col_offset].decode("utf-8", "surrogatepass")

    def cell(self, number: int) -> tuple[int, int] | None:
        """Return the cell of a notebook and the line in it, both from 1, in which a line of the text stands."""
        return cell_of(self.cells, number)


def cell_of(cells: Sequence[tuple[int, int]], number: int) -> tuple[int, int] | None:
    """Return the cell and the line in it of a line, given the first lines and numbers of cells."""
    starts = [(first, cell) for first, cell in cells if first <= number]
    return (starts[-1][1], number - starts[-1][0] + 1) if starts else None


def cell_words(place: tuple[int, int]) -> str:
    """Return a place in a notebook as a person says it."""
    return f"cell {place[0]}, line {place[1]}"


@lru_cache(4)  # every finding asks for a line of the same few files
def lines_of(text: str) -> tuple[str, ...]:
    """Return the lines as Python counts them: form feeds and the separators of Unicode end none."""
    return tuple(re.split(r"\r\n|\r|\n", text) if "\r" in text else text.split("\n"))


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be parsed."""

    name: str
    reason: str
    line: int | None = None
    cell: tuple[int, int] | None = None  # of a notebook: the cell, and the line in it

    @property
    def why(self) -> str:
        """Return the reason with the place, as a person says it."""
        at = cell_words(self.cell) if self.cell else f"line {self.line}" if self.line else ""
        return f"{at}: {self.reason}" if at else self.reason
