"""Nodes of a syntax tree: all below some, all of a file by what they are, each walked once; and what names say.

`ast.walk` asks every field of every node; most of these hold texts, and most nodes of code are names and constants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeVar, cast

from whyidle.lint.source import Source

Node = TypeVar("Node", bound=ast.AST)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
# Fields that hold texts and numbers, or nodes that are no more than a word: an operator, how a name is used.
_WORDS = frozenset(
    {"id", "attr", "arg", "ctx", "op", "ops", "kind", "type_comment", "level", "module", "asname", "conversion"}
    | {"simple", "is_async", "lineno", "tag", "rest", "kwd_attrs", "type_ignores"}
)
_TEXTS = (ast.Constant, ast.Global, ast.Nonlocal)  # which hold nothing else
_GAPS = frozenset({"keys", "kw_defaults"})  # lists in which None may stand for a node
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in _WORDS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind not in _TEXTS
}


def within(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """Return nodes and all below them, but not what functions and classes defined there hold."""
    found: list[ast.AST] = []
    stack = list(nodes)
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, _FUNCTIONS):
            _extend(stack, node)
    return found


def below(node: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, those first that stand in the fewest others, as `ast.walk` does."""
    found = [node]
    for one in found:
        _extend(found, one)  # which are looked at in turn
    return found


def every(source: Source, kind: type[Node]) -> list[Node]:
    """Return all nodes of one class in a file, in the order of `below`; the file is walked once."""
    if not source.nodes:
        for node in below(source.tree):
            source.nodes.setdefault(type(node), []).append(node)
    return cast("list[Node]", source.nodes.get(kind, []))


def _extend(found: list[ast.AST], node: ast.AST) -> None:
    """Append the nodes that stand directly in a node, in order of its fields."""
    for name in _FIELDS.get(node.__class__, ()):
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [one for one in value if one is not None] if name in _GAPS else value
        elif isinstance(value, ast.AST):
            found.append(value)


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name: `self.optimizer` is "optimizer"; of `x[0]` and calls that of what is."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return ""


def dotted(node: ast.expr) -> str:
    """Return a name as it is spelled, `a.b.c`; empty for anything else."""
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return node.id if isinstance(node, ast.Name) else ""
