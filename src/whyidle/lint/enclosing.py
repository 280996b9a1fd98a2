"""What stands around an expression in its file: the loop, the function, the block."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from whyidle.lint.source import Source

Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)  # what has variables of its own


@lru_cache(64)  # checks ask about the same few nodes
def around(source: Source, node: ast.AST) -> tuple[ast.AST, ...]:
    """Return all that a node stands in, the file first, the nearest last."""
    chain: list[ast.AST] = []
    here: ast.AST | None = source.tree
    while here is not None and here is not node:
        chain.append(here)
        here = next((child for child in ast.iter_child_nodes(here) if _holds(child, node)), None)
    return tuple(chain)


def function_of(path: Sequence[ast.AST]) -> ast.AST:
    """Return the innermost function of what stands around a node, or the module."""
    return next((node for node in reversed(path) if isinstance(node, FUNCTIONS)), path[0])


def loop_around(source: Source, node: ast.AST) -> Loop | None:
    """Return the innermost loop whose body holds a node and that belongs to the same function; None outside of loops.

    What stands in a loop's head is in the loop around it.
    """
    found: Loop | None = None
    for part, inner in pairwise((*around(source, node), node)):
        if isinstance(part, FUNCTIONS):
            found = None
        elif isinstance(part, LOOPS) and inner in part.body:
            found = part
    return found


def function_around(source: Source, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the function that a node stands in; None at the top of a file or in the body of a class."""
    found = [part for part in around(source, node) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    return found[-1] if found else None


def block_around(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """Return the list of statements that a statement is one of."""
    for parent in around(source, statement)[::-1]:
        for _, part in ast.iter_fields(parent):
            if isinstance(part, list) and any(item is statement for item in part):
                return part
    return [statement]


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    if outer is inner:
        return True
    if not hasattr(outer, "lineno"):  # arguments, with-items and comprehensions have no place of their own
        return any(_holds(child, inner) for child in ast.iter_child_nodes(outer))
    return _start(outer) <= _start(inner) and _end(inner) <= _end(outer)


def _start(node: ast.AST) -> tuple[int, int]:
    first = getattr(node, "decorator_list", None)  # stands above the line that a definition counts from
    if first:
        return _start(first[0])
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
