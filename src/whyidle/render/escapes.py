"""Text from a file as Markdown shows it, and nothing else: it makes no link, calls nobody, ends no table and no code.

GitHub looks for mentions, issues and addresses in the text of the finished page, where a backslash or an entity is gone
already; a character without width between the sign and the name stays (https://github.github.com/gfm/ for the rest).
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from whyidle.render.words import clean

_APART = "\N{ZERO WIDTH SPACE}"  # which `clean` leaves in no text
# What becomes a link, a mention or a picture by itself, each with where it is to be broken.
_LINKED = (
    (re.compile(r"@(?=[\w.\-])"), f"@{_APART}"),  # a person, a team, an address of mail
    (re.compile(r"#(?=\w)"), f"#{_APART}"),  # an issue
    (re.compile(r"\b(GH-)(?=\d)", re.IGNORECASE), rf"\1{_APART}"),
    (re.compile(r":(?=//)"), f":{_APART}"),
    (re.compile(r"\b(www)(?=\.)", re.IGNORECASE), rf"\1{_APART}"),
    (re.compile(r"\b(mailto|xmpp):", re.IGNORECASE), rf"\1:{_APART}"),
    (re.compile(r"(?<![:\w]):(?=[a-z0-9_+\-]+:)"), f":{_APART}"),  # an emoji
)
# Marks of Markdown; "_" within a word is none.
_MARKS = re.compile(r"[\\*\[\]|~$`]|(?<![^\W_])_|_(?![^\W_])")
_LEADING = re.compile(r"^(\d+)([.)])(?=\s|$)|^([#+\-=])")  # a list, a heading or a line, where a paragraph begins


def prose(text: str) -> str:
    """Return text to stand in a paragraph, a list or a cell of a table; what stands in pairs of backticks is code."""
    parts = clean(text).strip().split("`")
    if len(parts) % 2 == 0:  # one is left over
        return _plain("`".join(parts))
    return "".join(code(part, cell=True) if number % 2 else _plain(part) for number, part in enumerate(parts))


def _plain(text: str) -> str:
    text = _MARKS.sub(r"\\\g<0>", html.escape(text, quote=False))
    text = _LEADING.sub(lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", text)
    for sign, broken in _LINKED:
        text = sign.sub(broken, text)
    return text.replace(_APART, "&#8203;")


def code(text: str, *, cell: bool = False) -> str:
    """Return text as code within a line; nothing where it is empty.

    Args:
        text: any.
        cell: it may stand in a table, where a bar ends the cell even in code.
    """
    text = clean(text).strip()
    if not text:
        return ""
    if "|" in text and cell:  # "\|" is right in a table only, and an entity is none in code
        return f"<code>{_plain(text)}</code>"
    ticks = "`" * (_longest(text, "`") + 1)
    space = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def fence(lines: Sequence[str], language: str = "") -> str:
    """Return lines of code as a block."""
    lines = [clean(line.replace("\t", "    ")).rstrip() for line in lines]
    ticks = "`" * max(3, max((_longest(line, "`") + 1 for line in lines), default=0))
    return "\n".join([f"{ticks}{language}", *lines, ticks])


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = ()) -> str:
    """Return a table of cells that are escaped already; columns in `right` are of numbers."""
    rule = ["---:" if column in right else ":---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, tuple(rule), *rows))


def folded(title: str, inside: str) -> str:
    """Return Markdown that a reader has to open."""
    return f"<details><summary>{_plain(title)}</summary>\n\n{inside}\n\n</details>"


def _longest(text: str, sign: str) -> int:
    return max(map(len, re.findall(rf"{re.escape(sign)}+", text)), default=0)
