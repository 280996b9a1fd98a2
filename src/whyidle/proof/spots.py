"""Where a finding stands in its source: its statement, what that calls, and the function around it.

A recording names a file, a function and a line, each in its own way; here they are held against the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from whyidle.lint.source import Source
from whyidle.measure.stacks import Frame
from whyidle.model.finding import Location
from whyidle.proof.files import Files

MODULE = "<module>"
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of source, with what is around it."""

    files: Files
    file: str  # as the finding calls it
    line: int
    first: int  # lines of its statement; of a `for` or an `if` those of its head
    last: int
    names: frozenset[str] = frozenset()  # that the line calls
    function: str = MODULE
    begins: int = 1  # lines of the function
    ends: int = 1 << 30
    sometimes: bool = False  # its function may run without it

    def at(self, file: str, line: int) -> bool:
        """Say whether a line of a file, as a recording calls it, belongs to this statement."""
        place = self.files.place(file, line)
        return place is not None and place[0] == self.file and self.first <= place[1] <= self.last

    def inside(self, frame: Frame) -> bool:
        """Say whether a frame is of the function that this line stands in."""
        if frame.function.rpartition(".")[2] != self.function:
            return False
        place = self.files.place(frame.file, frame.line)
        return place is not None and place[0] == self.file and self.begins <= place[1] <= self.ends


class Spots:
    """All source files, to look lines up in."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._by_name = {source.name: source for source in sources}
        self.files = Files(tuple(self._by_name.values()))

    def of(self, place: Location) -> Spot:
        """Return what a place in source is; of a file that was not parsed only its line is known."""
        source, line = self._by_name.get(place.file), place.line or 0
        found = around(source.tree, line) if source is not None else Around()
        first, last = head(found.statement) if found.statement is not None else (line, line)
        named = frozenset(called(found.statement, line)) if found.statement is not None else frozenset()
        spot = Spot(self.files, place.file, line, first, last, named, sometimes=found.sometimes)
        if found.function is None:
            return spot
        ends = found.function.end_lineno or found.function.lineno
        return replace(spot, function=found.function.name, begins=begin(found.function), ends=ends)


@dataclass(slots=True)
class Around:
    """The innermost statement at a line, the innermost function around it, and whether it may be passed over there."""

    statement: ast.stmt | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    sometimes: bool = False


def around(tree: ast.Module, line: int) -> Around:
    """Return what stands around a line."""
    found = Around()
    body: list[ast.AST] = list(tree.body)
    while True:
        inner = next((node for node in body if begin(node) <= line <= (getattr(node, "end_lineno", None) or 0)), None)
        if inner is None:
            return found
        outer = found.statement
        if isinstance(outer, Functions):
            found.function, found.sometimes = outer, False
        # what an `if` holds, what handles an error, and what stands behind a way out
        branch = isinstance(outer, ast.If | ast.Match) or isinstance(inner, ast.excepthandler)
        found.sometimes |= branch or any(begin(node) < begin(inner) and leaves(node) for node in body)
        if isinstance(inner, ast.stmt):
            found.statement = inner
        body = [node for node in ast.iter_child_nodes(inner) if isinstance(node, ast.stmt | ast.excepthandler)]
        body += [node for case in getattr(inner, "cases", ()) for node in case.body]


def leaves(node: ast.AST) -> bool:
    """Say whether a statement can pass over those behind it, without an error."""
    if not isinstance(node, ast.If):
        return False
    return any(isinstance(one, ast.Continue | ast.Break | ast.Return) for one in ast.walk(node))


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
