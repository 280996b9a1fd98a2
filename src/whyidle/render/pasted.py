"""Markdown that can be pasted where people review a change: tables, code, text in which nothing of a file acts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from whyidle.render.base import Look
from whyidle.render.words import clean


def escaped(text: str) -> str:
    """Return text in which nothing is markup."""
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", clean(text))


def code(text: str) -> str:
    """Return a line of code; its fence is longer than any row of backticks in it."""
    shown = clean(text)
    fence = "`" * (max(map(len, re.findall(r"`+", shown)), default=0) + 1)
    space = " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, last_left: bool = False
) -> Iterator[str]:
    """Yield the lines of a table: its first `left` columns are text, and its last if it says so, others numbers."""
    text = [index < left or (last_left and index == len(head) - 1) for index in range(len(head))]
    yield _row(list(map(escaped, head)))
    yield _row(["---" if is_text else "---:" for is_text in text])
    for row in rows:
        yield _row(list(map(escaped, row)))


def written(lines: Iterable[str], look: Look) -> str:
    """Return lines as a text, in ASCII where nothing else can be shown."""
    text = "\n".join(lines) + "\n"
    return text if look.unicode else text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _row(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
