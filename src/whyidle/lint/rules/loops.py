"""The loop that a line stands in, by the text of the source: what it assigns changes from round to round."""

from __future__ import annotations

import ast
from typing import TypeAlias

from whyidle.lint.source import Source

Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While


def innermost(node: ast.AST, source: Source) -> Loop | None:
    """Return the innermost loop whose body holds a node and that belongs to the same function; None outside of loops.

    What stands in a loop's head is in the loop around it.
    """
    found: Loop | None = None
    for part in ast.walk(source.tree):  # outer nodes come before inner ones
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and _holds(part, node):
            found = None
        elif isinstance(part, ast.For | ast.AsyncFor | ast.While) and any(_holds(line, node) for line in part.body):
            found = part
    return found


def stored_names(loop: Loop) -> set[str]:
    """Return the variables that a loop gives a value: its targets, and all that is assigned in its body."""
    parts = [loop.target, *loop.body] if isinstance(loop, ast.For | ast.AsyncFor) else loop.body
    nodes = [node for part in parts for node in ast.walk(part)]
    attributes = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute) and _stored(node)}
    return attributes | {node.id for node in nodes if isinstance(node, ast.Name) and _stored(node)}


def conditional(node: ast.AST, source: Source) -> bool:
    """Say whether a line is skipped at times, by the text: an `if` around it, or a way out before it.

    What is around the loop or the function that it stands in does not count.
    """
    found = False
    for part in ast.walk(source.tree):
        if isinstance(part, ast.IfExp):
            found = found or _holds(part.body, node) or _holds(part.orelse, node)
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.For | ast.AsyncFor | ast.While | ast.If):
            for block in (part.body, getattr(part, "orelse", [])):
                at = next((number for number, line in enumerate(block) if _holds(line, node)), None)
                if at is not None:
                    left = any(isinstance(line, ast.If) and _leaves(line.body) for line in block[:at])
                    found = left or isinstance(part, ast.If)
    return found


def kept(statement: ast.stmt) -> bool:
    """Say whether a statement keeps its value for later, in an attribute, under a key or as a buffer."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr == "register_buffer"
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)


def _leaves(block: list[ast.stmt]) -> bool:
    return isinstance(block[-1], ast.Return | ast.Continue | ast.Break)


def _stored(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _holds(outer: ast.AST, node: ast.AST) -> bool:
    """Say whether the text of one node lies within that of another."""
    return _start(outer) <= _start(node) and _end(node) <= _end(outer)


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0
