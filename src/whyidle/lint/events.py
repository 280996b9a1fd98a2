"""What the engine tells checks as it follows a program: calls, tests, texts, indexing, settings, each with where.

Every event has `node`, the expression or statement in the source, `source`, the file that it stands in (which may be
another than the one that the engine started from), and `where`, how often it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from whyidle.lint.values import Value
from whyidle.lint.where import Where

if TYPE_CHECKING:
    from whyidle.lint.source import Source

How: TypeAlias = Literal[  # the truth or order of a value is asked
    "if", "while", "assert", "not", "and", "or", "else", "filter", "max", "min", "sorted", "any", "all"
]
As: TypeAlias = Literal["f-string", "%", "format", "print", "str", "repr", "log"]  # a value is made text


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens in the program."""

    node: ast.AST
    source: Source
    where: Where
    statement: ast.stmt  # the statement that it is part of
    via: tuple[tuple[Source, ast.Call], ...] = ()  # the calls of the project's functions that led here, outermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class Called(Event):
    """A call. `name` is dotted, aliases resolved: "torch.cuda.synchronize"; of a method ".item", with its `receiver`.

    A method of an object that was made by a call of known name has `receiver.name`: "torch.optim.AdamW".
    A function or class of this project is called by its qualified name and, `inside`, was followed.
    """

    node: ast.Call
    name: str
    receiver: Value | None = None
    args: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    result: Value = field(default_factory=Value)
    inside: bool = False
    used: bool = True  # False: the statement is the call alone

    def argument(self, position: int, keyword: str) -> Value | None:
        """Return an argument by its keyword or else its place; None where it is not given."""
        if keyword in self.keywords:
            return self.keywords[keyword]
        return self.args[position] if 0 <= position < len(self.args) else None

    @property
    def receiver_text(self) -> str:
        """Return the receiver as the source spells it: "self.optimizer"."""
        func = self.node.func
        return ast.unparse(func.value) if isinstance(func, ast.Attribute) and self.receiver is not None else ""

    @property
    def spread(self) -> bool:
        """Say whether the call passes on arguments that are not spelled out: *args, **kwargs."""
        starred = any(isinstance(arg, ast.Starred) for arg in self.node.args)
        return starred or any(keyword.arg is None for keyword in self.node.keywords)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested(Event):
    """The truth or order of a value is asked, for which a tensor is read back."""

    value: Value
    how: How


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown(Event):
    """A value is made text: for a tensor, it is read back."""

    value: Value
    how: As


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed(Event):
    """A tensor is indexed by another: `x[mask]`; by truth values the host has to learn how many are true."""

    node: ast.Subscript
    value: Value
    index: Value
    stored: bool = False  # x[mask] = value, whose right side decides whether anything is read back
    stores: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Set(Event):
    """A setting of a library or of the process: torch.backends.cudnn.benchmark = True, os.environ["X"] = "1"."""

    name: str  # "torch.backends.cudnn.benchmark", "os.environ.CUDA_LAUNCH_BLOCKING"
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Looped(Event):
    """A loop begins. `where` is that of its body."""

    node: ast.For | ast.AsyncFor | ast.While | ast.comprehension
    over: Value  # what is iterated; unknown for `while`
    parameters: bool = False  # over model.parameters() and the like


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Event):
    """A whole training step was followed: the body of a training loop, or a function that is one."""

    calls: tuple[Called, ...]  # in order of the source, those of functions that it calls included
    loop: ast.AST | None = None
