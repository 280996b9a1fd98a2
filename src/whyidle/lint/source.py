"""A file of source code: its text as lines, its tree, and where a line of a notebook stands."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A file that was parsed. Lines count from 1 in `text`; of a notebook that is all code cells one after the other."""

    path: Path
    name: str  # as reports call it: relative to where the user stands, with slashes
    text: str
    tree: ast.Module
    cells: tuple[tuple[int, int], ...] = ()  # of a notebook: first line in `text`, number of the cell in the file
    newline: str = "\n"
    bom: bool = False
    encoding: str = "utf-8"
    ignored: dict[int, frozenset[str]] = field(default_factory=dict)  # lines with `# whyidle: ignore[...]`; empty: all

    def line(self, number: int) -> str:
        """Return a line of the text without its indent; "" past its end."""
        lines = self.text.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be parsed."""

    name: str
    reason: str
    line: int | None = None
