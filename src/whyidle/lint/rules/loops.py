"""What decides how often a line runs, by the text: what the loop around it assigns, and what skips the line."""

from __future__ import annotations

import ast
from itertools import pairwise

from whyidle.lint.enclosing import FUNCTIONS, LOOPS, Loop, around
from whyidle.lint.source import Source


def stored_names(loop: Loop) -> set[str]:
    """Return the variables and attributes that a loop gives a value: its targets, and what its body assigns."""
    parts = loop.body if isinstance(loop, ast.While) else [loop.target, *loop.body]
    nodes = (node for part in parts for node in ast.walk(part) if isinstance(node, ast.Name | ast.Attribute))
    return {ast.unparse(node) for node in nodes if isinstance(node.ctx, ast.Store | ast.Del)}


def conditional(node: ast.AST, source: Source) -> bool:
    """Say whether a line is skipped at times, by the text: an `if` around it, or a way out before it.

    What is around the loop or the function that it stands in does not count.
    """
    found = False
    for part, inner in pairwise((*around(source, node), node)):
        if isinstance(part, (*FUNCTIONS, *LOOPS)):
            found = False
        if isinstance(part, ast.If | ast.IfExp) and inner is not part.test:
            found = True
        for _, block in ast.iter_fields(part):
            if isinstance(block, list) and inner in block:
                before = block[: block.index(inner)]
                found = found or any(isinstance(line, ast.If) and _leaves(line.body) for line in before)
    return found


def _leaves(block: list[ast.stmt]) -> bool:
    return isinstance(block[-1], ast.Return | ast.Continue | ast.Break)


def kept(statement: ast.stmt) -> bool:
    """Say whether a statement keeps its value for later, in an attribute, under a key or as a buffer."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr == "register_buffer"
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
