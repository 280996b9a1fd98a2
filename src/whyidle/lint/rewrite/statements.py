"""Statements taken away, put in and put below a header, in whole lines."""

from __future__ import annotations

import io
import textwrap
import tokenize
from collections.abc import Iterable

from whyidle.lint.repair import Insert, Remove, Wrap
from whyidle.lint.rewrite.places import Refused, Text
from whyidle.lint.rewrite.splice import Splice


def removed(text: Text, change: Remove) -> Splice:
    """Return what takes a statement away, with the comment in its line; `pass` stays where a block would be empty."""
    statement = change.statement
    block, _ = text.block(statement)
    if len(block) == 1 and block is not text.tree.body:
        start = text.offset(statement.lineno, statement.col_offset)
        end = text.offset(statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
        if getattr(statement, "decorator_list", ()) or text.text.startswith("elif", start):
            raise Refused("its block would be empty")
        return Splice(start, end, "pass")
    first, last = text.lines(statement)
    end = text.line_end(last)
    return Splice(text.line_start(first), end + len(text.line(last)) - len(text.line(last).rstrip("\r\n")), "")


def inserted(text: Text, change: Insert) -> Splice:
    """Return what puts statements before or after another; before means above the comments that lead to it."""
    first, last = text.lines(change.statement)
    text.block(change.statement)
    indent = text.indent(change.statement)
    lines = [f"{indent}{line}" if line else "" for line in textwrap.dedent(change.code).strip("\n").splitlines()]
    if change.after:
        place = text.line_end(last)
        return Splice(place, place, "".join(text.newline + line for line in lines))
    place = text.line_start(_above_comments(text, first, indent))
    return Splice(place, place, "".join(line + text.newline for line in lines))


def _above_comments(text: Text, line: int, indent: str) -> int:
    """Return the first of the comment lines above a line; the line itself where they begin the file."""
    above = line
    while above > 1 and text.line(above - 1).startswith(f"{indent}#"):
        above -= 1
    return above if above > 1 else line


def wrapped(text: Text, change: Wrap) -> list[Splice]:
    """Return what puts statements below a header and indents them."""
    block, begin = text.block(change.first)
    other, end = text.block(change.last)
    if other is not block or end < begin:
        raise Refused("the statements do not stand in one block")
    for statement in block[begin : end + 1]:
        text.lines(statement)
    (first, _), (_, last) = text.lines(change.first), text.lines(change.last)
    numbers = range(first, last + 1)
    if _has_long_text(text.line(number) for number in numbers):
        raise Refused("a text of several lines would be indented with it")
    start = text.line_start(first)
    header = Splice(start, start, f"{text.indent(change.first)}{change.header}{text.newline}")
    shifts = [
        Splice(text.line_start(number), text.line_start(number), text.indent_unit)
        for number in numbers
        if text.line(number).strip()
    ]
    return [header, *shifts]


def _has_long_text(lines: Iterable[str]) -> bool:
    """Say whether a text in quotes goes on over the end of a line."""
    kinds = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO("".join(lines)).readline)
    return any(token.type in kinds and token.start[0] != token.end[0] for token in tokens)
