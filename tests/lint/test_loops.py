"""What stands around a line, by the text alone."""

from __future__ import annotations

import ast

import pytest

from tests.lint.pointed import call, source
from whyidle.lint.enclosing import loop_around
from whyidle.lint.rules.loops import conditional, kept, stored_names

CODE = """
for epoch in range(9):
    a = one()
    for b in two():
        if b:
            c = three()
        self.d = four() if b else five()
        e[0] = six()
        if b > 1:
            continue
        f = seven()
    while eight():
        nine()
def inside():
    ten()
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [("one", 2), ("two", 2), ("three", 4), ("eight", 2), ("nine", 12), ("ten", None), ("range", None)],
)
def test_the_innermost_loop_is_the_one_whose_body_holds_the_line(name: str, line: int | None) -> None:
    program = source(CODE)
    loop = loop_around(program, call(program.tree, name))
    assert (loop.lineno if loop is not None else None) == line


def test_a_loop_stores_its_target_and_what_its_body_assigns() -> None:
    program = source(CODE)
    loop = loop_around(program, call(program.tree, "three"))
    assert loop is not None
    assert stored_names(loop) == {"b", "c", "self.d", "f"}


@pytest.mark.parametrize(
    ("name", "skipped"),
    [("one", False), ("three", True), ("four", True), ("six", False), ("seven", True), ("nine", False)],
)
def test_a_line_is_skipped_behind_an_if_or_after_a_way_out(name: str, skipped: bool) -> None:
    program = source(CODE)
    assert conditional(call(program.tree, name), program) is skipped


@pytest.mark.parametrize(
    ("code", "keeps"),
    [
        ("x = f()", False),
        ("self.x = f()", True),
        ("x[0] = f()", True),
        ("self.register_buffer('x', f())", True),
        ("f()", False),
    ],
)
def test_what_an_attribute_a_key_or_a_buffer_holds_is_kept(code: str, keeps: bool) -> None:
    assert kept(ast.parse(code).body[0]) is keeps
