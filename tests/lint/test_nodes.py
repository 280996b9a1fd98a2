"""Walking a tree in short finds what `ast.walk` finds, but for words: operators, and how a name is used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint import nodes
from whyidle.lint.nodes import below, every, within
from whyidle.lint.source import Source

FILES = sorted(Path(nodes.__file__).parent.rglob("*.py"))
WORDS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)

CODE = """\
import os as system
from json import *

@decorated(1)
class Kept:
    def inside(self, *, a: int = 1, **rest):
        return {**rest, "a": a}

async def run(kept):
    global found
    match kept:
        case {"a": [first, *others], **more} if first:
            await first
        case Kept(name=1):
            pass
    try:
        with open(kept) as file, file:
            found = [x async for x in file if not x] + (lambda y, /: y)(-1)
    except* OSError as error:
        raise error from None
    return f"{found!r:>{kept}}", found[1:2, ...], 1 < 2 <= 3
"""


def source(text: str) -> Source:
    return Source(Path("job.py"), "job.py", text, ast.parse(text))


def as_python_walks(tree: ast.AST) -> list[ast.AST]:
    return [node for node in ast.walk(tree) if not isinstance(node, WORDS)]


@pytest.mark.parametrize("text", [CODE, *(path.read_text("utf-8") for path in FILES[::9])])
def test_below_finds_what_python_finds_in_the_same_order(text: str) -> None:
    tree = ast.parse(text)
    assert [id(node) for node in below(tree)] == [id(node) for node in as_python_walks(tree)]


def test_every_finds_all_of_a_class_and_walks_once() -> None:
    job = source(CODE)
    calls = every(job, ast.Call)
    assert calls == [node for node in ast.walk(job.tree) if isinstance(node, ast.Call)]
    assert every(job, ast.Call) is calls
    assert every(job, ast.While) == []


def test_within_leaves_out_what_functions_and_classes_hold() -> None:
    tree = ast.parse("a = f(b)\ndef g():\n    c\nclass D:\n    e\nif h:\n    (lambda: i)(j)\n")
    names = {node.id for node in within(tree.body) if isinstance(node, ast.Name)}
    assert names == {"a", "b", "f", "h", "j"}


def test_the_text_of_an_expression_is_that_of_python() -> None:
    job = source('x = "\u00e9", name.item(), (\n    1 + 2\n)\n')
    for node in below(job.tree):
        if isinstance(node, ast.expr):
            assert job.code(node) == ast.get_source_segment(job.text, node)
