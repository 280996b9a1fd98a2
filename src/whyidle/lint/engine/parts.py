"""A call whose parts were evaluated, and what iterating a value gives: shared by everything that knows results."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whyidle.lint.values import ASSUMED, DEVICE, PLAIN, UNKNOWN, Place, Value, join


@dataclass(slots=True)
class Call:
    """A call whose parts were evaluated."""

    node: ast.Call
    function: Value
    receiver: Value | None
    method: str  # "" of a plain function
    name: str  # dotted, or ".method"
    args: tuple[Value, ...]
    keywords: dict[str, Value]

    @property
    def last(self) -> str:
        """Return the last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def first(self) -> Value:
        """Return the first argument; unknown where there is none."""
        return self.args[0] if self.args else UNKNOWN

    def argument(self, position: int, keyword: str) -> Value | None:
        """Return an argument by its keyword or else its place; None where it is not given."""
        if keyword in self.keywords:
            return self.keywords[keyword]
        return self.args[position] if position < len(self.args) else None

    def tensors(self) -> list[Value]:
        """Return the tensors among its arguments, and in lists and tuples of these."""
        every = (*self.args, *self.keywords.values())
        return [value for arg in every for value in arg.holds() if value.kind == "tensor"]


def output(network: Value) -> Value:
    """Return what a call of a module gives."""
    return DEVICE if network.place == "device" else ASSUMED


def passed(call: Call) -> Value:
    """Return what a wrapper hands on: the first thing among its arguments that can be iterated."""
    for value in call.args:
        if value.kind in {"loader", "dataset"} or value.items is not None:
            return value
    return call.first


def element(value: Value) -> Value:
    """Return what iterating a value gives each time."""
    if value.items is not None:
        if value.name in {"named_parameters", "named_modules"}:
            return Value("plain", items=(PLAIN, value.items[0]))
        result = value.items[0] if value.items else UNKNOWN
        for item in value.items[1:]:
            result = join(result, item)
        return result
    if value.kind == "loader":
        place: Place = "device" if value.place == "device" else "host"
        return Value("tensor", place, value.pinned, is_batch=True, loader=value.loader)
    if value.kind == "tensor":
        bare = value.but(items=None, fields=None)
        return Value("plain", items=(PLAIN, bare.but(name=""))) if value.name == "items" else bare
    if value.kind == "module":  # a ModuleList, a Sequential
        return value.but(define=None, fields=None)
    return PLAIN if value.fields and value.kind == "plain" else UNKNOWN
