"""Where the nodes of a tree stand in its text, in characters: ast counts columns in UTF-8 bytes."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\r|\n")
SHORTEST, LONGEST = 88, 120  # characters: what black makes, and the most that is usual
_AFTER = re.compile(r"[ \t\f]*(#.*)?")


class Refused(Exception):  # noqa: N818 - no error: a repair that is left to a person
    """A repair cannot be made here; says why."""


class Text:
    """Source code with its tree. Places of nodes of another tree of the same text are found as well."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parsed(text)
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    @cached_property
    def newline(self) -> str:
        """How its lines end; the first decides."""
        end = _LINE_END.search(self.text)
        return end[0] if end else "\n"

    @cached_property
    def width(self) -> int:
        """How long a line of code may get: as long as the file's own are, within what is usual."""
        lengths = (len(line) for line in _LINE_END.split(self.text))
        return max((length for length in lengths if SHORTEST <= length <= LONGEST), default=SHORTEST)

    @cached_property
    def _nodes(self) -> dict[tuple[object, ...], tuple[ast.AST, ast.AST, list[ast.stmt]]]:
        """Each node with its parent and the block that it stands in."""
        nodes = {}
        for parent in ast.walk(self.tree):
            for _, value in ast.iter_fields(parent):
                several = value if isinstance(value, list) else [value]
                for node in several:
                    if isinstance(node, ast.AST) and hasattr(node, "lineno"):
                        nodes[_key(node)] = (node, parent, several)
        return nodes

    def _own(self, node: ast.expr | ast.stmt) -> tuple[ast.AST, ast.AST, list[ast.stmt]]:
        found = self._nodes.get(_key(node))
        if found is None or ast.dump(found[0]) != ast.dump(node):
            raise Refused("the code there is not what was looked at")
        return found

    def parent(self, node: ast.expr) -> ast.AST:
        """Return the node that an expression is a part of."""
        return self._own(node)[1]

    def block(self, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
        """Return the statements among which one stands, and its place there."""
        own, _, block = self._own(statement)
        return block, next(index for index, other in enumerate(block) if other is own)

    def line(self, number: int) -> str:
        """Return a line, from 1, with its end."""
        after = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : after]

    def offset(self, line: int, column: int) -> int:
        """Return the place of a line, from 1, and a column in bytes as characters from the start."""
        text = self.line(line)
        return self._starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))

    def line_start(self, line: int) -> int:
        """Return where a line, from 1, begins."""
        return self._starts[line - 1]

    def line_end(self, line: int) -> int:
        """Return where a line, from 1, ends, without the characters that end it."""
        return self._starts[line - 1] + len(self.line(line).rstrip("\r\n"))

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return where an expression begins and ends.

        Before Python 3.12 the tree tells wrong places of what stands in an f-string of several lines.
        """
        self._own(node)
        start = self.offset(node.lineno, node.col_offset)
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        try:
            there = ast.parse(f"({self.text[start:end]})", mode="eval").body
        except SyntaxError:
            there = None
        if there is None or ast.dump(there) != ast.dump(node):
            raise Refused("it stands in a text of several lines, of which this Python does not tell the places")
        return start, end

    def lines(self, statement: ast.stmt) -> tuple[int, int]:
        """Return the first and last line of a statement, if it has them for itself."""
        self._own(statement)
        decorators = getattr(statement, "decorator_list", ())
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        last = statement.end_lineno or statement.lineno
        column = self.offset(statement.lineno, statement.col_offset)
        before = self.text[self.line_start(statement.lineno) : column]
        after = self.text[self.offset(last, statement.end_col_offset or 0) : self.line_end(last)]
        continued = first > 1 and self.line(first - 1).rstrip("\r\n").endswith("\\")
        if before.strip() or continued or not _AFTER.fullmatch(after):
            raise Refused("it shares its line with another statement")
        if isinstance(statement, ast.If) and self.text.startswith("elif", column):
            raise Refused("it is the `elif` of another statement")
        return first, last

    def indent(self, statement: ast.stmt) -> str:
        """Return what stands before a statement in its line."""
        return self.text[self.line_start(statement.lineno) : self.offset(statement.lineno, statement.col_offset)].strip(
            "\f"
        )

    @cached_property
    def indent_unit(self) -> str:
        """What a block is indented by, as the first one is; four spaces if there is none."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
                inner, outer = self.indent(body[0]), self.indent(node)
                if inner.startswith(outer) and inner != outer and not inner.strip():
                    return inner[len(outer) :]
        return "    "


def parsed(text: str) -> ast.Module:
    """Return the tree of a text, without the warnings that Python has about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _key(node: ast.AST) -> tuple[object, ...]:
    place = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return (type(node), *(getattr(node, name, None) for name in place))
