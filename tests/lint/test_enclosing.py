"""What stands around a node is what holds it, at any depth."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from whyidle.lint.checks import all_checks
from whyidle.lint.enclosing import around, block_around, function_around
from whyidle.lint.source import Source

CODE = """\
import torch

@torch.compile(mode="max-autotune")
class Net(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x, *, scale=1.0):
        with self.lock as lock, self.other:
            return [y * scale for y in x if y is not None], {k: v for k, v in lock.items()}

    async def run(self, match):
        match match:
            case {"a": [first, *rest]} if first:
                await first(lambda value=(1, 2): value[0])
        try:
            pass
        except (ValueError, KeyError) as error:
            raise SystemExit from error
        finally:
            x = 1; y = 2
"""
CODES = [CODE, *(case.code for check in all_checks() for case in check.cases[:2])]


def children(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):  # Python 3.11 places its parts wrongly
            continue
        yield node, child
        yield from children(child)


@pytest.mark.parametrize("code", CODES, ids=range(len(CODES)))
def test_the_nearest_is_the_parent(code: str) -> None:
    source = Source(Path("job.py"), "job.py", code, ast.parse(code))
    for parent, child in children(source.tree):
        if isinstance(child, ast.expr | ast.stmt):
            chain = around(source, child)
            assert chain[0] is source.tree
            assert chain[-1] is parent, ast.unparse(child)


def test_function_and_block() -> None:
    source = Source(Path("job.py"), "job.py", CODE, ast.parse(CODE))
    last = next(node for node in ast.walk(source.tree) if isinstance(node, ast.Assign) and ast.unparse(node) == "y = 2")
    function = function_around(source, last)
    assert function is not None
    assert function.name == "run"
    assert [ast.unparse(one) for one in block_around(source, last)] == ["x = 1", "y = 2"]
    assert function_around(source, source.tree.body[0]) is None
