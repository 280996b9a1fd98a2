"""What stands around a line that waits: whether another wait comes just before it, or the backward pass after it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.enclosing import LOOPS, around, function_of, loop_around
from whyidle.lint.events import Event
from whyidle.lint.nodes import below, last_name

# Calls after which the GPU has nothing left to do.
_DRAINS = frozenset(["item", "tolist", "cpu", "synchronize", "get_scale"])
# Calls that queue nothing, or so little that waiting for it takes no longer than asking.
_SMALL = frozenset(
    [
        "detach",
        "numpy",
        "float",
        "int",
        "bool",
        "len",
        "str",
        "print",
        "format",
        "round",
        "isfinite",
        "isnan",
        "time",
        "perf_counter",
        "monotonic",
        "append",
        "exit",
        "mean",
        "sum",
        "max",
        "min",
        "abs",
        "any",
        "all",
        "sqrt",
        "norm",
        "size",
        "numel",
        "view",
        "info",
        "debug",
        "warning",
        "range",
        "enumerate",
        "items",
        "keys",
        "values",
    ]
)

_ACTION = re.compile(r"\bact(ion)?s?\b|\.act\(|select_action", re.IGNORECASE)


class Lines:
    """Remembers which expression of a line was told of: one is enough for a person, whatever else stands there."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], int] = {}

    def claims(self, event: Event) -> bool:
        """Say whether an event may be told of: it is the first of its line, or that one again."""
        place = (id(event.source), getattr(at_method(event.node), "lineno", 0))
        return self._told.setdefault(place, id(event.node)) == id(event.node)


def at_method(call: ast.AST) -> ast.AST:
    """Return where a finding about a method's call stands: at the method's name, if lines lie before it."""
    function = call.func if isinstance(call, ast.Call) else None
    if not isinstance(function, ast.Attribute) or function.end_lineno in {None, function.lineno}:
        return call
    column = max((function.end_col_offset or 0) - len(function.attr.encode()), 0)
    return ast.Name(function.attr, lineno=function.end_lineno, col_offset=column)


def counter(event: Event) -> str:
    """Return the name of a number that counts the steps here; "step" where none is seen."""
    loop = loop_around(event.source, event.node)
    if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call):
        name = getattr(loop.iter.func, "id", "")
        first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else loop.target
        if isinstance(first, ast.Name) and first.id != "_" and name in {"enumerate", "range", "trange"}:
            return first.id
    return "step"


def acts(event: Event) -> bool:
    """Say whether a line gives an environment of reinforcement learning its action: that has to reach the CPU."""
    return event.where.environment and _ACTION.search(ast.unparse(event.statement)) is not None


def before_backward(event: Event) -> bool:
    """Say whether a backward pass follows in the same loop or function, and none came before."""
    block = loop_around(event.source, event.node) or function_of(around(event.source, event.node))
    if isinstance(block, ast.Module) or not hasattr(event.node, "lineno"):
        return False
    lines = [call.lineno for call in _calls(block) if last_name(call.func) in {"backward", "manual_backward"}]
    return bool(lines) and min(lines) > event.node.lineno


def drained(event: Event) -> bool:
    """Say whether the GPU was waited for just before, with no more than small work queued since."""
    statement = event.statement
    for call in _calls(statement):
        if _is_drain(call) and call is not event.node and _ends_before(call, event.node):
            return True
    for above in reversed(around(event.source, statement)):
        block = next((one for one in _blocks(above) if statement in one), [])
        for earlier in reversed(block[: block.index(statement)] if block else []):
            said = _queues(earlier)
            if said is not None:
                return not said
        if not block or not isinstance(above, ast.If | ast.With):
            return False
        if isinstance(above, ast.If) and any(_is_drain(call) for call in _calls(above.test)):
            return True
        statement = above
    return False


def _queues(statement: ast.stmt) -> bool | None:
    """Say whether a statement leaves work queued (True) or waits for the GPU (False); None if neither."""
    calls = list(_calls(statement))
    waits = [call for call in calls if _is_drain(call)]
    for call in calls:
        around_a_wait = any(wait in ast.walk(call) for wait in waits)  # meter.update(loss.item())
        if not around_a_wait and last_name(call.func) not in _SMALL:
            return True
    if not waits:
        return None
    if isinstance(statement, ast.If):
        return None if not any(_is_drain(call) for call in _calls(statement.test)) else False
    return isinstance(statement, (*LOOPS, ast.Try))


def _is_drain(call: ast.Call) -> bool:
    name = last_name(call.func)
    if name == "state_dict" and isinstance(call.func, ast.Attribute):
        return "scaler" in ast.unparse(call.func.value).lower()
    return name in _DRAINS and isinstance(call.func, ast.Attribute)


def _blocks(node: ast.AST | None) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in below(node) if isinstance(one, ast.Call))


def _ends_before(one: ast.expr, other: ast.AST) -> bool:
    """Say whether an expression is worked out before another begins, as far as their places tell."""
    if not isinstance(other, ast.expr):
        return False
    return (one.end_lineno or 0, one.end_col_offset or 0) <= (other.lineno, other.col_offset)
