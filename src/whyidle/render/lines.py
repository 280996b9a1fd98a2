"""Lines of a terminal report: a head, and text beside it that wraps under itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells
from rich.text import Text

LABEL = 27  # where the second column of the picture and of a finding's head begins
INDENT = 13  # where the text of a finding's lines begins


def hang(head: Text, body: Text, width: int, indent: int | None = None) -> Iterator[Text]:
    """Yield `body` beside `head`, wrapped to `width` columns; further lines stand under the first, or at `indent`."""
    beside = cell_len(head.plain)
    indent = beside if indent is None else indent
    rows = wrap(body.plain, width - indent, first=width - beside)
    yield Text.assemble(head, (rows[0], body.style))
    for row in rows[1:]:
        yield Text.assemble(" " * indent, (row, body.style))


def wrap(text: str, width: int, first: int) -> list[str]:
    """Break text at spaces into rows of at most `width` columns, the first of `first`; a longer word is cut."""
    rows: list[str] = []
    row, room = "", first
    indented = len(text) - len(text.lstrip(" "))  # code keeps its indentation
    head, *words = text[indented:].split(" ")
    for word in (" " * indented + head, *words):
        if row and cell_len(row) + 1 + cell_len(word) > room:
            rows.append(row)
            row, room = "", width
        row = f"{row} {word}" if row else word
        while cell_len(row) > room:
            cut = chop_cells(row, room)[0]
            rows.append(cut)
            row, room = row[len(cut) :], width
    return [*rows, row]


def columns(head: Text, cells: Sequence[str], width: int) -> Iterator[Text]:
    """Yield cells in columns of equal width beside `head`."""
    indent = cell_len(head.plain)
    size = max(map(cell_len, cells)) + 3
    each = max((width - indent) // size, 1)
    for start in range(0, len(cells), each):
        row = "".join(f"{cell:<{size}}" for cell in cells[start : start + each]).rstrip()
        yield Text.assemble(" " * indent if start else head, row)
