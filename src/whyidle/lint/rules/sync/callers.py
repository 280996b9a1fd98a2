"""Where a function that waits is called from, and whether it is one that gathers a number of all ranks."""

from __future__ import annotations

import ast

from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.sync import nearby

_COLLECTIVES = frozenset("all_reduce reduce all_gather gather broadcast all_gather_into_tensor".split())


def calls_of(event: Event, job: Job) -> list[Called]:
    """Return the calls, seen so far, of the function that something happens in."""
    function = event.where.function.rpartition(".")[2]
    return [
        other
        for other in job.events
        if isinstance(other, Called)
        and other.inside
        and other.name.rpartition(".")[2] == function
        and other.where.phase == event.where.phase
    ]


def gathers(event: Event) -> bool:
    """Say whether the function that a read stands in gathers what it reads from all ranks first."""
    for above in nearby.outwards(event.node, event.source):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            return len(above.body) <= 12 and any(
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in _COLLECTIVES
                and ast.unparse(call.func.value) in {"dist", "torch.distributed", "distributed"}
                for statement in above.body
                for call in ast.walk(statement)
            )
    return False
