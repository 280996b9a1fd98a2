"""Notebooks as one program: their code cells one after the other, with what only IPython understands taken out.

A line that is no Python becomes `pass`, with the line itself in a comment behind it, so that lines count as they did
and `restored` can put them back into the cell.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from whyidle.lint.source import lines_of

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

MARK = "  #%whyidle% "  # what nobody else writes
# Magics of a whole cell below which Python stands, which runs in the notebook itself.
_PYTHON_CELLS = {"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "scalene", "snakeviz", "debug"}
_CELL = re.compile(r"\s*%%(\w*)")
# `%magic`, `!command`, `?name`, `name?`, and what is assigned from the first two.
_LINE = re.compile(r"(\s*)(?:[%!?]|[\w.\[\]()'\",* ]+\?\??\s*$|[\w., \[\]'\"*]+=\s*[%!])")


class NotebookError(Exception):
    """It is no notebook that we read; the message says why."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code of a notebook."""

    text: str
    cells: tuple[tuple[int, int], ...]  # first line in the text, number of the cell in the file, both from 1


def opened(text: str) -> Notebook:
    """Return the code of a notebook, of nbformat 3 or 4.

    Raises:
        NotebookError: for what is no notebook, or one in another language.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"is not a notebook: {error}") from None
    if not isinstance(content, dict):
        raise NotebookError("is not a notebook: it holds no cells")
    language = _language(content)
    if language not in {"", "python", "ipython", "ipython3", "python3"}:
        raise NotebookError(f"is a notebook in {language}, not Python")
    lines: list[str] = []
    starts: list[tuple[int, int]] = []
    for number, code in code_cells(content):
        starts.append((len(lines) + 1, number))
        lines += plain(code)
    return Notebook("\n".join([*lines, ""]) if lines else "", tuple(starts))


def code_cells(content: Mapping[str, Json]) -> Iterator[tuple[int, str]]:
    """Yield number, from 1, and code of each cell that holds code."""
    for number, cell in enumerate(cells_of(content), 1):
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, Sequence) and not isinstance(source, str):
            source = "".join(part for part in source if isinstance(part, str))
        if cell.get("cell_type") == "code" and isinstance(source, str):
            yield number, source


def cells_of(content: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """Return all cells; in nbformat 3 they lie in worksheets.

    Raises:
        NotebookError: where there are none.
    """
    sheets: Json = content.get("worksheets") if "cells" not in content else [content]
    if not isinstance(sheets, list):
        raise NotebookError("is not a notebook: it holds no cells")
    found = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    if not all(isinstance(cells, list) for cells in found):
        raise NotebookError("is not a notebook: it holds no cells")
    return [cell for cells in found if isinstance(cells, list) for cell in cells if isinstance(cell, dict)]


def _language(content: Mapping[str, Json]) -> str:
    """Return the language that the notebook names, in lower case; "" where it names none."""
    metadata = content.get("metadata")
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        about = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(about, dict) and isinstance(about.get(key), str):
            return str(about[key]).lower()
    return ""


def plain(code: str) -> list[str]:
    """Return the lines of a cell as Python."""
    lines = list(lines_of(code))
    magic = _CELL.match(next((line for line in lines if line.strip()), ""))
    if magic and magic[1] not in _PYTHON_CELLS:
        return [_hidden(line) if line.strip() else line for line in lines]
    if _error_line(lines) is None:
        return lines
    hidden = _without(lines, range(len(lines)))
    if _error_line(hidden) is None:
        return hidden
    # A line that looks like a magic may go on from the line before (`% 2`): take out only what does not parse.
    some = lines
    for _ in lines:
        wrong = _error_line(some)
        if wrong is None:
            return some
        less = _without(some, [wrong - 1])
        if less == some:
            break
        some = less
    return hidden


def _without(lines: list[str], numbers: Sequence[int]) -> list[str]:
    """Return the lines without magics among those of these numbers, from 0; a backslash at the end goes on."""
    result: list[str] = []
    indent: str | None = None  # of the magic that goes on in this line
    for number, line in enumerate(lines):
        if indent is None and number in numbers and MARK not in line:
            match = _LINE.match(line)
            indent = match[1] if match else None
        result.append(line if indent is None else _hidden(line, indent))
        if not line.rstrip().endswith("\\"):
            indent = None
    return result


def _hidden(line: str, indent: str = "") -> str:
    return f"{indent}pass{MARK}{line}"


def restored(line: str) -> str:
    """Return a line as it stands in the cell."""
    _, mark, original = line.partition(MARK)
    return original if mark else line


def _error_line(lines: Sequence[str]) -> int | None:
    """Return the line, from 1, at which Python stops; None where it gets through, 0 where nobody knows."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse("\n".join(lines))
    except SyntaxError as error:
        return error.lineno or 0
    except (ValueError, MemoryError, RecursionError):
        return 0
    return None
