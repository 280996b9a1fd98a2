"""Lines of a terminal report: a head, and text beside it that wraps under itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells
from rich.text import Text

LABEL = 27  # where the second column of the picture and of a finding's head begins
INDENT = 13  # where the text of a finding's lines begins

_NO_BREAK = "\N{NO-BREAK SPACE}"
# A number and its unit stay on one line.
_WITH_UNIT = re.compile(r"(?<=\d) (?=(?:ns|µs|ms|s|min|h|[KMGT]i?B|GPUs?|ranks?|steps?|launches|files?|rules?)\b)")


def hang(
    head: Text, body: Text, width: int, indent: int | None = None, *, most: int | None = None, tail: Text | None = None
) -> Iterator[Text]:
    """Yield `body` beside `head`, wrapped to `width` columns; further lines stand under the first, or at `indent`.

    Args:
        head: what stands before the first line.
        body: text of one style.
        width: columns in all.
        indent: where further lines begin.
        most: lines at most; what is left over is cut off.
        tail: a few words behind the body that stay together, in a style of their own.
    """
    beside = cell_len(head.plain)
    indent = beside if indent is None else indent
    text = body.plain
    if tail is not None:
        text = f"{text} {tail.plain.replace(' ', _NO_BREAK)}".lstrip()
    rows = wrap(text, width - indent, first=width - beside)
    if most is not None and len(rows) > most:
        rows[most - 1] += " " + rows[most]  # so that the cut comes where the line ends
        rows = cut(rows, most, width - (beside if most == 1 else indent))
    ends = len(rows[-1]) - len(tail.plain) if tail is not None else len(rows[-1])
    for index, row in enumerate(rows):
        front = head if index == 0 else " " * indent
        if tail is not None and index == len(rows) - 1 and ends >= 0:
            yield Text.assemble(front, (row[:ends], body.style), (row[ends:], tail.style))
        else:
            yield Text.assemble(front, (row, body.style))


def wrap(text: str, width: int, first: int) -> list[str]:
    """Break text at spaces into rows of at most `width` columns, the first of `first`; a longer word is cut."""
    rows: list[str] = []
    row, room = "", first
    text = _WITH_UNIT.sub(_NO_BREAK, text)
    indented = len(text) - len(text.lstrip(" "))  # code keeps its indentation
    head, *words = text[indented:].split(" ")
    for word in (" " * indented + head, *words):
        if row and cell_len(row) + 1 + cell_len(word) > room:
            rows.append(row)
            row, room = "", width
        row = f"{row} {word}" if row else word
        while cell_len(row) > room:
            part = chop_cells(row, room)[0]
            rows.append(part)
            row, room = row[len(part) :], width
    return [line.replace(_NO_BREAK, " ") for line in (*rows, row)]


def cut(rows: list[str], most: int | None, width: int) -> list[str]:
    """Return at most `most` rows; the last of them says that there is more."""
    if most is None or len(rows) <= most:
        return rows
    last = rows[most - 1]
    return [*rows[: most - 1], last[: width - 1].rstrip(" ,;:") + "…"]


def columns(head: Text, cells: Sequence[str], width: int) -> Iterator[Text]:
    """Yield cells in columns of equal width beside `head`."""
    indent = cell_len(head.plain)
    size = max(map(cell_len, cells)) + 3
    each = max((width - indent) // size, 1)
    for start in range(0, len(cells), each):
        row = "".join(f"{cell:<{size}}" for cell in cells[start : start + each]).rstrip()
        yield Text.assemble(" " * indent if start else head, row)
