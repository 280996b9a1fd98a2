"""Markdown to paste where people review a change: parts, as far as there is room; `escapes` makes their text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from whyidle.render import escapes
from whyidle.render.base import Look
from whyidle.render.escapes import prose
from whyidle.render.words import ascii_only, plural, shorten

# GitHub takes 65,536 characters for a comment and 1 MiB for the summary of a step; other text may stand beside ours.
ROOM: Final = 60_000
PART: Final = ROOM // 3  # of it for a table or a list
ROWS: Final = 100  # of a table
LONG: Final = 400  # characters of a cell, or of a remark
ALL: Final = "`-o report.json` has all"


def fitted(blocks: Iterable[str], room: int = ROOM, everything: str = ALL) -> str:
    """Return blocks, the most telling first, as far as there is room; how many are left out is said."""
    said, left = [], 0
    used = 100 + len(everything)  # for what is said last
    for block in filter(None, blocks):
        if used + len(block) + 2 > room:
            left += 1
            continue
        said.append(block)
        used += len(block) + 2
    if left:
        said.append(f"*{plural(left, 'part')} of this report left out for its length: {everything}.*")
    return "\n\n".join(said) + "\n"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int = 1,
    last_left: bool = False,
    everything: str = ALL,
) -> str:
    """Return a table; its first `left` columns are text, and its last if it says so, the others numbers."""
    last = len(head) - 1
    right = tuple(index for index in range(len(head)) if index >= left and not (last_left and index == last))
    cells = [tuple(prose(shorten(cell, LONG)) for cell in row) for row in rows]
    kept = min(_fit(sum(len(cell) + 3 for cell in row) for row in cells), ROWS)
    text = escapes.table(tuple(map(prose, head)), cells[:kept], right)
    return text if kept == len(cells) else f"{text}\n\nand {plural(len(cells) - kept, 'more row')}: {everything}"


def listed(pairs: Iterable[tuple[str, str]]) -> str:
    """Return remarks as a list, each with a word before it; "" for no word."""
    items = [f"- {head}: {told(text)}" if head else f"- {told(text)}" for head, text in pairs]
    kept = _fit(map(len, items))
    return "\n".join([*items[:kept], *([f"- and {len(items) - kept:,} more"] if kept < len(items) else [])])


def _fit(sizes: Iterable[int]) -> int:
    """Return how many of these, the first ones, have room in a table or a list."""
    return sum(size <= PART for size in accumulate(size + 1 for size in sizes))


def told(text: str) -> str:
    """Return a text, its end cut off where it has none."""
    return prose(shorten(text, 4 * LONG))


def written(text: str, look: Look) -> str:
    """Return it in ASCII where nothing else can be shown."""
    return text if look.unicode else ascii_only(text)
