"""Waits in functions that the step calls: where they are told of, and which of them gather a number of all ranks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from whyidle.lint.base import Hit
from whyidle.lint.events import Event
from whyidle.lint.job import Job
from whyidle.lint.rules.sync import nearby
from whyidle.lint.source import Source

_COLLECTIVES = frozenset("all_reduce reduce all_gather gather broadcast all_gather_into_tensor".split())
_LONGEST = 12  # statements: a function that only gathers is short


def at_call(hits: Iterator[Hit], event: Event, job: Job) -> Iterator[Hit]:
    """Yield findings of another file at the call in the job's own file that leads there."""
    calls = [call for source, call in event.via if source is job.source]
    for hit in hits:
        if event.source is job.source or not calls:
            yield hit
        else:
            line = getattr(event.node, "lineno", 0)
            message = f"{hit.message.removesuffix('.')} (in {event.source.name}, line {line})."
            yield replace(hit, node=calls[-1], source=None, message=message, repair=None)


def gathering(event: Event) -> tuple[Source, ast.Call] | None:
    """Return the call of a function that gathers from all ranks what is read here; None if it is no such function."""
    if not event.via or event.where.function.rpartition(".")[2] in {"forward", "training_step"}:
        return None
    for above in nearby.outwards(event.node, event.source):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            gathers = len(above.body) <= _LONGEST and any(_is_collective(node) for node in ast.walk(above))
            return event.via[-1] if gathers else None
    return None


def _is_collective(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _COLLECTIVES
        and ast.unparse(node.func.value) in {"dist", "torch.distributed", "distributed"}
    )
