"""An import that new code needs, where the others stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from whyidle.lint.repair import Import, Insert
from whyidle.lint.rewrite.places import Refused, Text
from whyidle.lint.rewrite.splice import Splice
from whyidle.lint.rewrite.statements import inserted

_IMPORTS = (ast.Import, ast.ImportFrom)


def imported(text: Text, change: Import) -> Splice | None:
    """Return what adds an import behind the first ones of the module; None where it is there."""
    body = text.tree.body
    if set(_names(ast.parse(change.code).body)) <= set(_names(body)):
        return None
    first = next((place for place, node in enumerate(body) if isinstance(node, _IMPORTS)), None)
    if first is not None:
        last = first
        while last + 1 < len(body) and isinstance(body[last + 1], _IMPORTS):
            last += 1
        return inserted(text, Insert(body[last], change.code, after=True))
    if not body:
        raise Refused("the file is empty")
    if ast.get_docstring(text.tree, clean=False) is not None:
        new = inserted(text, Insert(body[0], change.code, after=True))
        return replace(new, code=text.newline + new.code)
    return inserted(text, Insert(body[0], change.code))


def _names(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield what the imports of a module bind: the name, and what it stands for."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or whole, whole
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"
