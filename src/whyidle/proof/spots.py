"""Where a finding stands in its source: its statement, what that calls, and the function around it.

A recording names a file, a function and a line, each in its own way; here they are held against the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath, PurePosixPath

from whyidle.lint.source import Source
from whyidle.measure.stacks import Frame
from whyidle.model.finding import Location

MODULE = "<module>"
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of source, with what is around it."""

    file: str  # as the finding calls it
    line: int
    path: tuple[str, ...]  # of the file, part by part
    first: int  # lines of its statement; of a `for` or an `if` those of its head
    last: int
    names: frozenset[str] = frozenset()  # that the line calls
    function: str = MODULE
    begins: int = 1  # lines of the function
    ends: int = 1 << 30

    def at(self, file: str, line: int) -> bool:
        """Say whether a line of a file, as a recording calls it, belongs to this statement."""
        return self.first <= line <= self.last and self.in_file(file)

    def inside(self, frame: Frame) -> bool:
        """Say whether a frame is of the function that this line stands in."""
        named = frame.function.rpartition(".")[2] == self.function
        return named and self.begins <= frame.line <= self.ends and self.in_file(frame.file)

    def in_file(self, file: str) -> bool:
        """Say whether a path is that of this file: the shorter of the two ends the longer one.

        A recording may have been made elsewhere: of an absolute path the name of the file and of its folder have to do.
        """
        other = PurePosixPath(file.replace("\\", "/"))
        parts = other.parts
        same = common_end(parts, self.path)
        absolute = other.is_absolute() or ":" in parts[0]
        return same > 0 and (same == min(len(parts), len(self.path)) or (absolute and same > 1))


def common_end(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many last parts two paths share."""
    count = 0
    for mine, yours in zip(reversed(one), reversed(other), strict=False):
        if mine != yours:
            break
        count += 1
    return count


@dataclass(slots=True)
class Spots:
    """All source files, to look lines up in."""

    sources: Iterable[Source]
    _by_name: dict[str, Source] = field(init=False)

    def __post_init__(self) -> None:
        self._by_name = {source.name: source for source in self.sources}

    def of(self, place: Location) -> Spot:
        """Return what a place in source is; of a file that was not parsed only its line is known."""
        source, line = self._by_name.get(place.file), place.line or 0
        path = PurePath(place.file).parts
        if source is None:
            return Spot(place.file, line, path, line, line)
        path = source.path.parts if common_end(source.path.parts, path) == len(path) else path
        statement, function = around(source.tree, line)
        first, last = head(statement) if statement is not None else (line, line)
        named = frozenset(called(statement, line)) if statement is not None else frozenset()
        if function is None:
            return Spot(place.file, line, path, first, last, named)
        begins, ends = begin(function), function.end_lineno or function.lineno
        return Spot(place.file, line, path, first, last, named, function.name, begins, ends)


def around(tree: ast.Module, line: int) -> tuple[ast.stmt | None, ast.FunctionDef | ast.AsyncFunctionDef | None]:
    """Return the innermost statement at a line, and the innermost function around it."""
    statement: ast.stmt | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    body: Iterable[ast.AST] = tree.body
    while True:
        inner = next((node for node in body if begin(node) <= line <= (getattr(node, "end_lineno", None) or 0)), None)
        if inner is None:
            return statement, function
        if isinstance(inner, ast.stmt):
            if isinstance(statement, Functions):
                function = statement
            statement = inner
        body = [node for node in ast.iter_child_nodes(inner) if isinstance(node, ast.stmt | ast.excepthandler)]
        body += [node for case in getattr(inner, "cases", ()) for node in case.body]


def begin(node: ast.AST) -> int:
    """Return the first line of a node, decorators included, as Python counts the lines of a function."""
    lines: list[int] = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    return min([*lines, getattr(node, "lineno", 1 << 30)])


def head(statement: ast.stmt) -> tuple[int, int]:
    """Return the lines of a statement without those of the block below it."""
    body = getattr(statement, "body", None)
    last = statement.end_lineno or statement.lineno
    if isinstance(body, list) and body:
        last = max(begin(body[0]) - 1, statement.lineno)
    return statement.lineno, last


def called(statement: ast.stmt, line: int) -> Iterable[str]:
    """Yield the names of what a line calls, as a profiler would name the frames."""
    below = {id(node) for block in (getattr(statement, "body", ()),) for stmt in block for node in ast.walk(stmt)}
    for node in ast.walk(statement):
        if id(node) in below or not getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0):
            continue
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name:
                yield name
        elif isinstance(node, ast.FormattedValue):
            yield "__format__"
