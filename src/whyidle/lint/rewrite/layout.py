"""Lines that get too long by what is added to them, put into several."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from whyidle.lint.rewrite.places import Text
from whyidle.lint.rewrite.splice import Splice


def tuples_laid_out(text: Text, splices: Sequence[Splice]) -> Iterator[Splice]:
    """Yield what gives each part of `x, y = x.to(device), y.to(device)` its own line, where that gets too long."""
    for node in ast.walk(text.tree) if len(splices) > 1 else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple) or node.lineno != node.end_lineno:
            continue
        first, last = text.line_start(node.lineno), text.line_end(node.lineno)
        inside = [splice for splice in splices if first <= splice.start and splice.end <= last]
        longer = sum(len(splice.code) - (splice.end - splice.start) for splice in inside)
        if len(inside) > 1 and last - first + longer > text.width:
            yield from _each_its_line(text, node, node.value.elts)


def _each_its_line(text: Text, assign: ast.Assign, parts: list[ast.expr]) -> Iterator[Splice]:
    spans = [text.span(part) for part in parts]
    between = [(end, start) for (_, end), (start, _) in pairwise(spans)]
    whole = text.span(assign.value)
    before = text.text[text.line_start(assign.lineno) : whole[0]]
    plain = whole == (spans[0][0], spans[-1][1]) and ";" not in before and before.count(":") == 0
    if not plain or any(text.text[start:end].strip() != "," for start, end in between):
        return
    outer = text.newline + text.indent(assign)
    inner = outer + text.indent_unit
    yield Splice(whole[0], whole[0], f"({inner}")
    for start, end in between:
        yield Splice(start, end, f",{inner}")
    yield Splice(whole[1], whole[1], f",{outer})")
