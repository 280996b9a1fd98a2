"""A line of source as an excerpt: with its number, and the expression that is meant underlined."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.text import Text

from whyidle.model.finding import Location
from whyidle.render.places import number
from whyidle.render.words import clean

INDENT = 5
_BEFORE = 12  # columns that stay before the expression where a line is too long to show all of it
_OPEN, _CLOSE = "([{", ")]}"


def excerpt(place: Location, width: int) -> Iterator[Text]:
    """Yield the line and what underlines it; nothing where no text of it is known."""
    told = parts(place)
    if told is None:
        return
    before, meant, after = told
    head = f"{'':{INDENT}}{number(place)}"
    room = width - len(head) - 3
    if cell_len(before + meant + after) > room and len(before) > _BEFORE:
        before = "…" + before[1 - _BEFORE :]
    row = (before + meant + after).lstrip()
    if cell_len(row) > room:
        row = chop_cells(row, room - 1)[0] + "…"
    yield Text.assemble((f"{head} | ", "dim"), row)
    if place.column is not None:
        under = max(min(cell_len(meant), room - cell_len(before)), 1)
        yield Text.assemble((f"{'':{len(head)}} | ", "dim"), " " * cell_len(before), ("^" * under, "bold red"))


def parts(place: Location) -> tuple[str, str, str] | None:
    """Return the line in three parts: before the expression that is meant, that, and after; None without its text."""
    if place.line is None or not (place.excerpt or "").strip():
        return None
    line = (place.excerpt or "").rstrip()
    start = min(max((place.column or 1) - 1, 0), len(line))
    end = start + span(line, start)
    return _shown(line[:start]).lstrip(), _shown(line[start:end]), _shown(line[end:])


def span(line: str, start: int) -> int:
    """Return how many characters the expression has that starts there, as far as the line shows it; at least 1."""
    depth, place = 0, start
    while place < len(line):
        char = line[place]
        if char in "\"'":
            place = _end_of_text(line, place)
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth < 0:
                break
        elif char == "#" or (depth == 0 and not (char.isalnum() or char in "_.")):
            break
        place += 1
    return max(len(line[start:place].rstrip()), 1)


def _end_of_text(line: str, start: int) -> int:
    """Return where the text ends whose quotation mark stands there."""
    place = start + 1
    while place < len(line) and line[place] != line[start]:
        place += 2 if line[place] == "\\" else 1
    return min(place, len(line) - 1)


def _shown(text: str) -> str:
    return clean(text.replace("\t", "    "))
