"""What decides whether a node is reached: conditions around it, and what the names of its function are bound to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from whyidle.lint.enclosing import around
from whyidle.lint.events import Event
from whyidle.lint.job import Job
from whyidle.lint.nodes import below

RANKS = re.compile(r"rank|main_process|is_main|master|global_zero|distributed|world_size", re.IGNORECASE)
LONGEST_RANK = 60  # characters of a condition that asks for a rank and nothing else
Bindings: TypeAlias = Mapping[str, Sequence[ast.expr]]


def condition(path: Sequence[ast.AST]) -> str:
    """Return the condition that stands next around a node, as the source spells it; "" where none does.

    `if __name__ == "__main__"` is none.
    """
    for node, inner in zip(reversed(path), (None, *reversed(path)), strict=False):
        if isinstance(node, ast.If | ast.IfExp) and "__name__" not in (text := ast.unparse(node.test)):
            otherwise = isinstance(node, ast.If) and inner in node.orelse
            return f"not ({text})" if otherwise else text
        if isinstance(node, ast.ExceptHandler):
            return ast.unparse(node.type) if node.type is not None else "an error"
        if isinstance(node, ast.Match):
            return ast.unparse(node.subject)
    return ""


def is_unconditional(event: Event, job: Job) -> bool:
    """Say whether nothing but ranks is asked between the training loop that an event runs in and the event itself.

    The engine takes a condition that it cannot read for one that holds. What is done now and then stands behind such
    conditions, too, so that who says "in every step" of it has to look twice. The job has to be known to its end.
    """
    steps = {id(step.node) for step in job.steps()}
    for source, node in ((event.source, event.node), *reversed(event.via)):
        for outer in reversed(around(source, node)):
            if id(outer) in steps:
                return True
            if isinstance(outer, ast.If | ast.ExceptHandler | ast.Match):
                test = ast.unparse(outer.test) if isinstance(outer, ast.If) else ""
                if not RANKS.search(test) or len(test) > LONGEST_RANK:
                    return False
    return True


def names_in(target: ast.AST) -> Iterator[str]:
    """Yield the names of an expression."""
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


@lru_cache(maxsize=16)  # checks ask at each call of the same few functions and files
def bindings(function: ast.AST) -> Bindings:
    """Return what each name is bound to in a function, by assignments and by what loops go over."""
    found: dict[str, list[ast.expr]] = {}
    for node in below(function):
        if isinstance(node, ast.Assign):
            bound = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            bound = [(node.target, node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            bound = [(node.target, node.iter)]
        else:
            continue
        for target, value in bound:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
    return found
