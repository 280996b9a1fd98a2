"""Nodes of a text by what they spell, so that tests can say which they mean."""

from __future__ import annotations

import ast
from pathlib import Path

from whyidle.lint.parsing import parsed
from whyidle.lint.repair import Change, Repair
from whyidle.lint.rewrite import Rewritten, rewrite
from whyidle.lint.source import Source


def source(text: str, name: str = "train.py") -> Source:
    found = parsed(text.encode(), Path(name), name)
    assert isinstance(found, Source), found
    return found


def call(tree: ast.AST, function: str) -> ast.Call:
    """Return the first call of a function, by the end of its name."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return next(node for node in calls if ast.unparse(node.func).endswith(function))


def expression(tree: ast.AST, code: str) -> ast.expr:
    return next(node for node in ast.walk(tree) if isinstance(node, ast.expr) and ast.unparse(node) == code)


def statement(tree: ast.AST, code: str) -> ast.stmt:
    """Return the first statement that begins so."""
    return next(node for node in ast.walk(tree) if isinstance(node, ast.stmt) and ast.unparse(node).startswith(code))


def made(text: str, *changes: Change) -> str:
    """Return a text after changes, which have to be possible."""
    done = rewrite(text, [Repair(changes, safe=True)])
    assert not done.skipped, done.skipped
    return done.text


def refused(text: str, *changes: Change) -> str:
    """Return why changes are not made; the text has to be as it was."""
    done: Rewritten = rewrite(text, [Repair(changes, safe=True)])
    assert done.text == text
    return done.skipped[0][1]
