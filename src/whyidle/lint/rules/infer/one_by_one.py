"""Calls that stand in a loop over items, one call per item, where each could have been made without the one before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from whyidle.lint.enclosing import FUNCTIONS, around, function_of
from whyidle.lint.nodes import every, last_name
from whyidle.lint.rules.reached import bindings, names_in
from whyidle.lint.source import Source

FEW = 8  # items that are spelled out: a demonstration rather than a load
BATCHED = re.compile(r"batch|chunk|loader|range\(|attempt|retr|epoch|turn|round", re.IGNORECASE)
PACED = {
    "sleep",
    "input",
    "time",
    "perf_counter",
    "monotonic",
}  # a pause on purpose, a person, a measurement of latency
GROWS = {"append", "extend", "insert", "update", "add"}


def loop_of_items(source: Source, call: ast.Call) -> ast.For | ast.comprehension | None:
    """Return the loop that makes a call for each of its items, itself or by a function that it calls; None if none.

    Loops over batches, retries and turns of a conversation do not count, nor what runs beside itself (async, pools).
    """
    path = around(source, call)
    if not path or isinstance(function_of(path), ast.AsyncFunctionDef):
        return None
    if any(_is_loop(node) for node in path[path.index(function_of(path)) :]):
        return _items(source.tree, path, call)
    function = function_of(path)
    if not isinstance(function, ast.FunctionDef):
        return None
    for other in every(source, ast.Call):
        if isinstance(other.func, ast.Name) and other.func.id == function.name:
            outer = around(source, other)
            if outer and not isinstance(function_of(outer), ast.AsyncFunctionDef):
                found = _items(source.tree, outer, other)
                if found is not None:
                    return found
    return None


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.GeneratorExp | ast.DictComp)


def _items(tree: ast.Module, path: Sequence[ast.AST], call: ast.Call) -> ast.For | ast.comprehension | None:
    """Return the loop around a call if each round asks for its own item."""
    for node in reversed(path):
        if isinstance(node, FUNCTIONS):
            return None
        if isinstance(node, ast.ListComp | ast.DictComp):
            loop: ast.For | ast.comprehension = node.generators[0]
        elif isinstance(node, ast.For):
            loop = node
        elif _is_loop(node):
            return None
        else:
            continue
        return loop if _asks_for_items(tree, loop, call) else None
    return None


def _asks_for_items(tree: ast.Module, loop: ast.For | ast.comprehension, call: ast.Call) -> bool:
    if BATCHED.search(f"{ast.unparse(loop.target)} {ast.unparse(loop.iter)}") or _are_few(tree, loop.iter):
        return False
    body: list[ast.stmt] = loop.body if isinstance(loop, ast.For) else []
    of_item = set(names_in(loop.target))
    made = _made_of(body, of_item)
    used = {name for argument in (*call.args, *(word.value for word in call.keywords)) for name in names_in(argument)}
    # what grows from round to round is a conversation: each call needs the answer to the one before
    grown = set(_grown(body)) - made
    paced = any(
        isinstance(node, ast.Call) and last_name(node.func) in PACED
        for statement in body
        for node in ast.walk(statement)
    )
    return bool(used & made) and not used & grown and not paced


def _are_few(tree: ast.Module, over: ast.expr) -> bool:
    if isinstance(over, ast.Call) and over.args:  # enumerate(prompts), tqdm(prompts)
        return _are_few(tree, over.args[0])
    if isinstance(over, ast.Name):
        return any(
            isinstance(one, ast.List | ast.Tuple) and _are_few(tree, one) for one in bindings(tree).get(over.id, ())
        )
    return isinstance(over, ast.List | ast.Tuple) and 0 < len(over.elts) <= FEW


def _made_of(body: Sequence[ast.stmt], names: set[str]) -> set[str]:
    """Return these names and those that are made of them in a loop's body."""
    made = set(names)
    for statement in body:
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and node.value is not None
                and made & set(names_in(node.value))
            ):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                made |= {name for target in targets for name in names_in(target)}
    return made


def _grown(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign):
                yield from names_in(node.target)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GROWS:
                yield from names_in(node.func.value)
