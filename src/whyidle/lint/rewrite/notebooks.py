"""Splices of the joined code of a notebook, made in the cells of its file; all else of its JSON stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from whyidle.lint.notebook import MARK, cells_of, code_cells, restored
from whyidle.lint.rewrite.places import Refused
from whyidle.lint.rewrite.splice import Splice, spliced

_INDENT = re.compile(r"\{\r?\n([ \t]+)")


def cells_spliced(content: str, code: str, cells: Iterable[tuple[int, int]], splices: Iterable[Splice]) -> str:
    """Return the file of a notebook after splices.

    Args:
        content: the file as it is.
        code: the code of all its cells, one after the other.
        cells: the first line of each in that, and its number in the file, both from 1.
        splices: of `code`.

    Raises:
        Refused: where that cannot be done without touching anything else.
    """
    notebook = json.loads(content)
    if _written(notebook, like=content) != content:
        raise Refused("its JSON is laid out in a way that would not be kept")
    before = dict(code_cells(notebook))
    lines = code.split("\n")
    firsts = list(cells)
    ends = [first for first, _ in firsts[1:]] + [len(lines)]
    left = list(splices)
    start = 0
    for (first, number), end in zip(firsts, ends, strict=True):
        text = "".join(f"{line}\n" for line in lines[first - 1 : end - 1])
        own = [one for one in left if start <= one.start < start + len(text)]
        if own:
            new = _spliced_cell(text, [Splice(one.start - start, one.end - start, one.code) for one in own])
            if "\n".join(map(restored, text.split("\n")))[:-1] != before[number]:
                raise Refused("a cell has line ends of its own")
            _put(cells_of(notebook)[number - 1], new)
        left = [one for one in left if one not in own]
        start += len(text)
    if left:
        raise Refused("it changes what belongs to no cell")
    return _written(notebook, like=content)


def _spliced_cell(text: str, splices: list[Splice]) -> str:
    """Return the code of a cell after splices, as the cell holds it."""
    for one in splices:
        if one.end > len(text):
            raise Refused("it changes several cells")
        touched = text[text.rfind("\n", 0, one.start) + 1 : text.find("\n", max(one.end - 1, one.start))]
        if MARK in touched:
            raise Refused("it changes what only a notebook understands")
    new = spliced(text, splices).split("\n")
    return "\n".join(map(restored, new)).removesuffix("\n")


def _put(cell: Any, code: str) -> None:
    key = "source" if "source" in cell else "input"
    cell[key] = code.splitlines(keepends=True) if isinstance(cell[key], list) else code


def _written(notebook: object, like: str) -> str:
    """Return a notebook as JSON, laid out as another one is."""
    indent = _INDENT.match(like)
    text = json.dumps(notebook, indent=indent[1] if indent else None, ensure_ascii=like.isascii())
    end = like[len(like.rstrip()) :]
    return (text.replace("\n", "\r\n") if "\r\n" in like else text) + end
