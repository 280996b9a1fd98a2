"""What the check says to break a graph does so in the torch that is installed, and what it is silent of does not."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path

import pytest

from whyidle.lint.checks import ask
from whyidle.lint.project import Project
from whyidle.lint.rules.compile.graph_break import GraphBreak
from whyidle.lint.source import Source

CODE = """\
import logging, time
import torch

log = logging.getLogger("job")

@torch.compile
def step(x: torch.Tensor):
    y = x * 2
    {}
    return y * 3
"""
BREAKS = (
    "y = y * y.sum().item()",
    "y = y * float(y.sum())",
    "z = y.sum().tolist()",
    "print('a')",
    "log.info('a')",
    "t = time.perf_counter()",
    "if y.sum() > 1: y = y + 1",
    "y = y + 1 if not (y.sum() > 1) else y",
    "y = y + y[y > 0].sum()",
    "y = y + y.nonzero().sum()",
    "y = y + torch.unique(y).sum()",
)
FINE = (
    "assert y.sum() > 0",
    "text = f'{y.shape}'",
    "y = y.cpu()",
    "y[y > 0] = 0",
    "y = torch.where(y > 0, y, 0.0)",
    "y = y + len(y)",
    "if y.shape[0] > 2: y = y + 1",
)


def said(line: str) -> bool:
    code = CODE.format(line)
    source = Source(Path("job.py"), "job.py", code, ast.parse(code))
    return bool(ask([GraphBreak], source, Project()))


def breaks(line: str) -> bool:
    torch = pytest.importorskip("torch")
    dynamo = pytest.importorskip("torch._dynamo")
    code, name = CODE.format(line).replace("@torch.compile\n", ""), f"<{line}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    space: dict[str, object] = {}
    exec(compile(code, name, "exec"), space)
    dynamo.reset()
    return bool(dynamo.explain(space["step"])(torch.ones(3)).graph_break_count)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", BREAKS)
def test_breaks(line: str) -> None:
    assert said(line)
    assert breaks(line)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", FINE)
def test_breaks_nothing(line: str) -> None:
    assert not said(line)
    assert not breaks(line)
