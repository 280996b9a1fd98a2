"""Every place of a scope where a name is used, with what it stands in: what has to be known to change what it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_BY_ANY_NAME = {"locals", "globals", "eval", "exec"}  # `vars()` as well, but not `vars(args)`
_PERHAPS = (ast.IfExp, ast.BoolOp, ast.Compare, ast.Assert, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Loop = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True, slots=True)
class Mention:
    """A name where it is used; `path` leads from its scope down to it."""

    node: ast.Name
    path: tuple[ast.AST, ...]

    @property
    def parent(self) -> ast.AST:
        """Return the node that it is a part of."""
        return self.path[-2]

    @property
    def statement(self) -> ast.stmt:
        """Return the innermost statement around it."""
        return next(node for node in reversed(self.path) if isinstance(node, ast.stmt))

    @property
    def loops(self) -> tuple[ast.AST, ...]:
        """Return the loops in whose bodies it stands, the outermost first."""
        return tuple(one for one, next_ in pairwise(self.path) if isinstance(one, Loop) and next_ in one.body)

    def is_counted(self, loop: ast.AST) -> bool:
        """Say whether, within a loop, it stands behind a test of a counter: `if step % 100 == 0:`.

        A test behind which the optimizer steps is no such one: gradients are added up over a few batches.
        """
        inside = self.path[self.path.index(loop) :]
        return any(
            isinstance(one, ast.If)
            and next_ in one.body
            and any(isinstance(part, ast.Mod) for part in ast.walk(one.test))
            and not any(isinstance(part, ast.Attribute) and part.attr == "step" for part in ast.walk(one))
            for one, next_ in pairwise(inside)
        )

    @property
    def is_certain(self) -> bool:
        """Say whether its statement always comes to it."""
        return not any(isinstance(node, _PERHAPS) for node in self.path[self.path.index(self.statement) :])

    def follows(self, other: Mention) -> bool:
        """Say whether the other one's statement was always run before."""
        block, place = next(other.blocks())
        return any(one is block and place < here for one, here in self.blocks())

    def blocks(self) -> Iterator[tuple[list[ast.stmt], int]]:
        """Yield the blocks that it stands in, the innermost first, and the place of its statement in each."""
        for inner, outer in pairwise(reversed(self.path)):
            if isinstance(inner, ast.stmt):
                for _, field in ast.iter_fields(outer):
                    if isinstance(field, list) and any(one is inner for one in field):
                        yield field, next(place for place, one in enumerate(field) if one is inner)


def path_to(tree: ast.AST, node: ast.AST) -> tuple[ast.AST, ...]:
    """Return the nodes that lead from a tree down to one in it, both included; () where it is not in it."""
    waiting: list[tuple[ast.AST, ...]] = [(tree,)]
    while waiting:
        path = waiting.pop()
        if path[-1] is node:
            return path
        waiting += ((*path, child) for child in ast.iter_child_nodes(path[-1]) if _around(child, node))
    return ()


def _around(outer: ast.AST, inner: ast.AST) -> bool:
    """Say whether one may hold the other, by their lines; decorators stand above what they belong to."""
    if not hasattr(outer, "lineno") or getattr(outer, "decorator_list", None):
        return True
    return bool(outer.lineno <= inner.lineno and (inner.end_lineno or 0) <= (outer.end_lineno or 0))  # type: ignore[attr-defined]


def scope_of(path: tuple[ast.AST, ...]) -> ast.AST:
    """Return the function, or else the module, whose names those at the end of a path are."""
    return next(node for node in reversed(path) if isinstance(node, (*_SCOPES, ast.Module)))


def mentions(scope: ast.AST, name: str) -> list[Mention] | None:
    """Return every use of a name in its scope, in order of the source; None where others can use it as well."""
    arguments = getattr(scope, "args", None)
    if isinstance(arguments, ast.arguments) and name in _parameters(arguments):
        return None
    found: list[Mention] = []
    waiting: list[tuple[ast.AST, ...]] = [(scope,)]
    while waiting:
        path = waiting.pop()
        node = path[-1]
        if (isinstance(node, ast.Global | ast.Nonlocal) and name in node.names) or _sees_all(node):
            return None
        if isinstance(node, _SCOPES) and node is not scope:
            if _reads_outer(node, name):
                return None
            continue
        if isinstance(node, ast.Name) and node.id == name:
            if isinstance(node.ctx, ast.Del):
                return None
            if _is_later(path):
                return None
            found.append(Mention(node, path))
        waiting += ((*path, child) for child in ast.iter_child_nodes(node))
    return sorted(found, key=lambda mention: (mention.node.lineno, mention.node.col_offset))


def _parameters(arguments: ast.arguments) -> set[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {one.arg for one in every if one is not None}


def _is_later(path: tuple[ast.AST, ...]) -> bool:
    """Say whether it stands in a generator that is not used up at once, as by `sum(x for x in losses)`."""
    return any(isinstance(one, ast.GeneratorExp) and not isinstance(outer, ast.Call) for outer, one in pairwise(path))


def _sees_all(node: ast.AST) -> bool:
    """Say whether it is a call by which code gets at names that are not spelled out."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id in _BY_ANY_NAME or (node.func.id == "vars" and not node.args)


def _reads_outer(inner: ast.AST, name: str) -> bool:
    """Say whether code within a scope may use its name: it does so, and binds no name of its own like it.

    Defaults, decorators and base classes are evaluated outside.
    """
    if any(map(_sees_all, ast.walk(inner))):
        return True
    inside = [node for node in ast.walk(inner) if isinstance(node, ast.Name) and node.id == name]
    shared = any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in ast.walk(inner))
    body = inner.body if isinstance(inner, _SCOPES) else []
    within = {id(node) for part in (body if isinstance(body, list) else [body]) for node in ast.walk(part)}
    if shared or any(id(node) not in within for node in inside):
        return True
    arguments = getattr(inner, "args", None)
    own = isinstance(arguments, ast.arguments) and name in _parameters(arguments)
    own = own or (not isinstance(inner, ast.ClassDef) and any(isinstance(node.ctx, ast.Store) for node in inside))
    return bool(inside) and not own


def places_before(
    shown: Sequence[Mention], changed: Sequence[Mention], stored: Sequence[Mention]
) -> list[ast.stmt] | None:
    """Return the statements before which a value has to be read; None where that is in each step, or unclear.

    Args:
        shown: uses of its name that need it.
        changed: uses in loops, in which it changes.
        stored: where the name gets its first value. A use that is not certain may come before there is one.
    """
    done: list[tuple[list[ast.stmt], int, Mention]] = []
    for use in shown:
        for each in changed:
            if each.loops[-1] in use.loops and not use.is_counted(each.loops[-1]):
                return None
        if any(_covers(one, use, changed) for one in done):
            continue
        if not use.is_certain and not any(use.follows(store) for store in stored):
            return None
        block, place = next(use.blocks())
        if isinstance(block[place], ast.While) or _is_elif(use):
            return None
        done.append((block, place, use))
    return [block[place] for block, place, _ in done]


def stays_unread(changed: Sequence[Mention], places: Sequence[ast.stmt]) -> bool:
    """Say whether a name of a module may end as what was not read: in a notebook the next cell may be one to come."""
    for each in changed:
        body = getattr(each.path[0], "body", [])
        last = max((place for block, place in each.blocks() if block is body), default=len(body))
        if not any(one is place for place in places for one in body[last + 1 :]):
            return isinstance(each.path[0], ast.Module)
    return False


def _covers(done: tuple[list[ast.stmt], int, Mention], use: Mention, changed: Sequence[Mention]) -> bool:
    """Say whether a read that is made already always comes before this use, with no change in between."""
    block, place, first = done
    inside = any(one is block and place <= here for one, here in use.blocks())
    between = [each for each in changed if first.node.lineno <= each.node.lineno <= use.node.lineno]
    return inside and not between and first.loops == use.loops


def _is_elif(use: Mention) -> bool:
    """Say whether it stands in the test of an `elif`, before which no statement can."""
    statement = use.statement
    above = use.path[: use.path.index(statement)]
    outer = above[-1] if above else None
    return (
        isinstance(statement, ast.If)
        and isinstance(outer, ast.If)
        and outer.orelse == [statement]
        and statement.col_offset == outer.col_offset
    )
