"""Which waits stand in a loop over a model's parameters: one per parameter and step, which is a problem of its own."""

from __future__ import annotations

import ast
import re

from whyidle.lint.enclosing import around
from whyidle.lint.events import Event, Looped
from whyidle.lint.job import Job

_PARAMETERS = re.compile(r"\b(\w+_)?param(eter)?s\b|\bparam_groups\b")


def over_parameters(event: Event, job: Job) -> bool:
    """Say whether something happens in a loop over parameters, in the same function."""
    if not event.where.inner:
        return False
    loops = {id(loop): loop for loop in _loops(event)}
    if any(_PARAMETERS.search(ast.unparse(loop.iter)) for loop in loops.values()):
        return True
    return bool(loops) and any(
        isinstance(other, Looped) and other.parameters and id(other.node) in loops for other in job.events
    )


def _loops(event: Event) -> list[ast.For | ast.AsyncFor | ast.comprehension]:
    """Return the loops whose body an event stands in."""
    loops: list[ast.For | ast.AsyncFor | ast.comprehension] = []
    below = event.node
    for above in reversed(around(event.source, event.node)):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        if isinstance(above, ast.For | ast.AsyncFor) and below is not above.iter:
            loops.append(above)
        elif isinstance(above, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            loops += [one for one in above.generators if below is not one]
        below = above
    return loops
