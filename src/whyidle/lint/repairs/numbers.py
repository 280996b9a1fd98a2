"""What is a number of Python's own for sure, by its code: a tensor or a number of numpy makes a sum one of its kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_SAYS_SO = ("batch", "size", "accum", "steps", "n_", "num", "len", "world")
_OF_BATCHES = {"batch_size", "num_graphs", "num_nodes", "num_edges"}  # numbers in the batches of every library
_MAKES = {"len", "int", "float", "round"}
_TELLS = {"size", "numel", "dim", "item"}


def is_number(node: ast.expr, scope: ast.AST) -> bool:
    """Say whether it is a number of Python's own: a literal, a length, a size, a name that says so.

    Args:
        node: the code, of no tensor as far as its name tells.
        scope: the function or module in which it stands: what a name there is given has to be a number, too.
    """
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _MAKES
        case ast.Call(func=ast.Attribute(attr=name), args=args):
            return name in _TELLS and (name != "size" or bool(args))
        case ast.Subscript(value=ast.Attribute(attr="shape") | ast.Call(func=ast.Attribute(attr="size"))):
            return True
        case ast.BinOp(left=left, right=right):
            return is_number(left, scope) and is_number(right, scope)
        case ast.Name(id=name):
            return _says_so(name) and all(
                value is not None and is_number(value, scope) for value in _given(name, scope)
            )
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return name in _OF_BATCHES or (_says_so(name) and None not in _given(owner, scope))
        case ast.Attribute(attr=name):
            return _says_so(name)
        case _:
            return False


def _says_so(name: str) -> bool:
    return any(part in name.lower() for part in _SAYS_SO)


def _given(name: str, scope: ast.AST) -> Iterator[ast.expr | None]:
    """Yield what a name is given in a scope; None for what cannot be told, as what a loop gives it."""
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=one)], value=value) if one == name:
                yield value if not _mentions(value, name) else None
            case ast.AnnAssign(target=ast.Name(id=one), value=value) if one == name:
                yield value
            case ast.Assign(targets=targets) if any(_mentions(target, name, store=True) for target in targets):
                yield None
            case ast.For(target=target) | ast.comprehension(target=target) if _mentions(target, name, store=True):
                yield None
            case ast.AugAssign(target=ast.Name(id=one)) | ast.NamedExpr(target=ast.Name(id=one)) if one == name:
                yield None
            case _:
                pass


def _mentions(code: ast.expr, name: str, *, store: bool = False) -> bool:
    names = (node for node in ast.walk(code) if isinstance(node, ast.Name) and node.id == name)
    return any(isinstance(node.ctx, ast.Store) or not store for node in names)
