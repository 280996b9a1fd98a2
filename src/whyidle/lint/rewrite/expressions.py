"""Another expression in the place of one, in brackets where it would be read otherwise without."""

from __future__ import annotations

import ast
import io
import tokenize

from whyidle.lint.repair import Replace
from whyidle.lint.rewrite.places import Refused, Text
from whyidle.lint.rewrite.splice import Splice, narrowed

_ATOMS = (
    ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp,
    ast.DictComp,
)  # fmt: skip
# Those that may be read as something else even where commas and line ends are around them.
_LOOSE = (ast.Tuple, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.GeneratorExp, ast.Starred)


def replaced(text: Text, change: Replace) -> Splice:
    """Return what puts an expression in the place of another."""
    start, end = text.span(change.node)
    try:
        new = ast.parse(f"({change.code})", mode="eval").body
    except SyntaxError:
        raise Refused("what should stand there is no expression") from None
    if _comments(text.text[start:end]) - _comments(change.code):
        raise Refused("a comment stands in it")
    bare = isinstance(new, _ATOMS) or (not isinstance(new, _LOOSE) and _alone(text, change.node))
    if isinstance(new, ast.Constant) and not isinstance(text.parent(change.node), ast.Attribute):
        bare = True
    return narrowed(start, text.text[start:end], change.code if bare else f"({change.code})")


def _comments(code: str) -> set[str]:
    """Return the comments in an expression."""
    if "#" not in code:
        return set()
    tokens = tokenize.generate_tokens(io.StringIO(f"({code}\n)").readline)
    return {token.string for token in tokens if token.type == tokenize.COMMENT}


def _alone(text: Text, node: ast.expr) -> bool:
    """Say whether nothing but commas, brackets and line ends can stand next to an expression."""
    parent = text.parent(node)
    if isinstance(parent, ast.Call):
        return ast.dump(parent.func, include_attributes=True) != ast.dump(node, include_attributes=True)
    return isinstance(parent, ast.stmt | ast.keyword)
