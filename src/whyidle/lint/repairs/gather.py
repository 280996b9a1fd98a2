"""Losses that are read in each step into a list, left on the GPU until the list is used.

`losses.append(loss.item())` becomes `losses.append(loss.detach().clone())`, and all of the list is read before what
uses it: the same numbers, later. The clone is for code that changes the loss in its place afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from whyidle.lint.repair import Change, Insert, Repair, Replace
from whyidle.lint.repairs.accumulate import detached, is_count, is_fraction, spelled, tensor_of
from whyidle.lint.repairs.mentions import Mention, mentions, path_to, places_before, scope_of, stays_unread
from whyidle.lint.source import Source

_NOTE = "the numbers are the same, and are read when the list is used; until then each takes 512 bytes of the GPU"
# Functions that look at a list and do not keep it.
_LOOK = {"sum", "min", "max", "sorted", "print", "str", "list", "tuple"}
_LOOK_IN = {"np", "numpy", "statistics", "plt", "math", "torch", "pd", "json"}


def gathered(read: ast.expr, source: Source) -> Repair | None:
    """Return the repair of `losses.append(loss.item())` in a loop.

    Args:
        read: the `.item()` or `float()` of the tensor, a node of the source's tree.
        source: the file.
    """
    path = path_to(source.tree, read)
    if len(path) < 2 or not isinstance(read, ast.Call):
        return None
    append, tensor = path[-2], tensor_of(read)
    if not (isinstance(append, ast.Call) and isinstance(append.func, ast.Attribute) and append.args == [read]):
        return None
    if not isinstance(append.func.value, ast.Name) or append.func.attr != "append" or tensor is None:
        return None
    name = append.func.value.id
    uses = mentions(scope_of(path), name) or []
    filled = [use for use in uses if _method(use) == "append"]
    kind = "int" if is_count(tensor) else "float"
    if kind == "float" and not is_fraction(name, tensor):
        return None
    if not all(use.loops and _appended(use) == ast.dump(read) for use in filled):
        return None
    made = [use for use in uses if isinstance(use.node.ctx, ast.Store)]
    places = places_before([use for use in uses if not _is_plain(use)], filled, made)
    if not filled or places is None or (source.cells and stays_unread(filled, places)):
        return None
    if not all(_is_understood(use) for use in uses):
        return None
    kept = spelled(tensor, source) if kind == "int" else f"{detached(spelled(tensor, source))}.clone()"
    changes: list[Change] = [Replace(node, kept) for node in _reads(filled)]
    changes += [Insert(place, f"{name}[:] = [{kind}(value) for value in {name}]") for place in places]
    return Repair(tuple(changes), safe=True, note=_NOTE)


def _call(use: Mention) -> ast.Call | None:
    """Return the call of a method of the name: `losses.append(x)`."""
    if len(use.path) > 2 and isinstance(use.parent, ast.Attribute) and isinstance(use.path[-3], ast.Call):
        return use.path[-3]
    return None


def _method(use: Mention) -> str:
    return use.parent.attr if _call(use) is not None and isinstance(use.parent, ast.Attribute) else ""


def _appended(use: Mention) -> str:
    call = _call(use)
    return ast.dump(call.args[0]) if call is not None and len(call.args) == 1 else ""


def _reads(filled: Sequence[Mention]) -> list[ast.expr]:
    return [call.args[0] for use in filled if (call := _call(use)) is not None]


def _is_plain(use: Mention) -> bool:
    """Say whether it does not matter what the list holds: it is made, filled, emptied or counted."""
    is_counted = isinstance(use.parent, ast.Call) and ast.unparse(use.parent.func) == "len"
    return isinstance(use.node.ctx, ast.Store) or _method(use) in {"append", "clear"} or is_counted


def _is_understood(use: Mention) -> bool:
    """Say whether nobody but this code can hold the list after a use."""
    parent = use.parent
    if isinstance(use.node.ctx, ast.Store):
        value = getattr(use.statement, "value", None)
        return isinstance(use.statement, ast.Assign | ast.AnnAssign) and ast.unparse(value or parent) in {
            "[]",
            "list()",
        }
    if isinstance(parent, ast.Call):
        first = ast.unparse(parent.func).partition(".")[0]
        return first in _LOOK | {"len"} or ("." in ast.unparse(parent.func) and first in _LOOK_IN)
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Load)
    return _is_plain(use) or isinstance(parent, ast.Return | ast.FormattedValue | ast.comprehension)
