"""What a fix does to source, as data: which node, and what stands there afterwards. `rewrite` does it, with libcst."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetArguments:
    """Set keyword arguments of a call, and drop others; those that are there keep their place."""

    call: ast.Call
    arguments: Mapping[str, str]  # name: code
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replace:
    """Put other code in the place of an expression; comments around it stay."""

    node: ast.expr
    code: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take a statement away; where its block would be empty, `pass` stays."""

    statement: ast.stmt


@dataclass(frozen=True, slots=True)
class Insert:
    """Put statements before or after another, in its block."""

    statement: ast.stmt
    code: str
    after: bool = False


@dataclass(frozen=True, slots=True)
class Wrap:
    """Put consecutive statements of one block below a header: `with torch.autocast("cuda", torch.bfloat16):`."""

    first: ast.stmt
    last: ast.stmt
    header: str


@dataclass(frozen=True, slots=True)
class Import:
    """Make sure that a module is imported by this name: "import torch"."""

    code: str


Change = SetArguments | Replace | Remove | Insert | Wrap | Import


@dataclass(frozen=True, slots=True)
class Repair:
    """Changes that belong together. Safe: results stay the same, or differ only as `note` says."""

    changes: tuple[Change, ...]
    safe: bool
    note: str = ""  # what else changes: "the logged loss arrives 100 steps later"
