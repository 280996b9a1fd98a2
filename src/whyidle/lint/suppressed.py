"""Which lines a person has asked us to be silent about: `# whyidle: ignore`, `# whyidle: ignore-file`."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator

from whyidle.lint.source import Source, lines_of

EVERYTHING = "all"  # the code that means every check
ALL: frozenset[str] = frozenset()
FILE = 0  # the key of a comment that speaks for the whole file
_MARK = "whyidle:"
_COMMENT = re.compile(r"#\s*whyidle:\s*ignore(-file)?(?![\w-])(?:\s*\[([^\]]*)\])?", re.IGNORECASE)


def ignored_in(text: str) -> dict[int, frozenset[str]]:
    """Return the lines that carry such a comment, with the rules, checks or families that it names; empty: all."""
    found: dict[int, frozenset[str]] = {}
    if _MARK not in text.lower():
        return found
    for number, column, comment in _comments(text):
        for match in _COMMENT.finditer(comment):
            if match[1] and column:
                continue  # behind code it would surprise whoever reads the rest of the file
            line = FILE if match[1] else number
            codes = frozenset(code.strip() for code in (match[2] or "").split(",") if code.strip())
            codes = ALL if EVERYTHING in codes else codes
            before = found.get(line, codes)
            found[line] = before | codes if before and codes else ALL
    return found


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield line, column and text of each comment; where only the parser gets through, of what looks like one."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text, newline=None).readline))
    except (tokenize.TokenError, SyntaxError):
        for number, line in enumerate(lines_of(text), 1):
            if "#" in line:
                yield number, line.index("#"), line[line.index("#") :]
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield *token.start, token.string


def matches(code: str, names: Iterable[str]) -> bool:
    """Say whether a code means one of these rules or checks: by its whole name or its family."""
    return any(code in (name, name.partition(".")[0]) for name in names)


def is_ignored(source: Source, node: ast.AST, names: tuple[str, ...]) -> bool:
    """Say whether a finding of these names at this node is not wanted: at its line, its statement or in the file."""
    if not source.ignored:
        return False
    line = getattr(node, "lineno", 0)
    for number in {FILE, line, _statement_line(source.tree, line)}:
        codes = source.ignored.get(number)
        if codes is not None and (not codes or any(matches(code, names) for code in codes)):
            return True
    return False


def _statement_line(tree: ast.Module, line: int) -> int:
    """Return the first line of the innermost statement that covers a line."""
    body: list[ast.stmt] = list(tree.body)
    first = line
    while body:
        node = body.pop()
        if not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        first = node.lineno
        body = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        for block in ast.iter_child_nodes(node):
            if isinstance(block, ast.ExceptHandler | ast.match_case):
                body += block.body
    return first
