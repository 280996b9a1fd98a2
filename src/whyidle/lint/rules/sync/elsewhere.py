"""Waits in functions that the step calls: where they are told of, and which of them gather a number of all ranks."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath

from whyidle.lint.base import Hit
from whyidle.lint.enclosing import around, loop_around
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.nodes import below
from whyidle.lint.source import Source

_COLLECTIVES = frozenset(["all_reduce", "reduce", "all_gather", "gather", "broadcast", "all_gather_into_tensor"])
_LONGEST = 12  # statements: a function that only gathers is short


class Elsewhere:
    """Tells of waits in other files at the calls in the job's own file that lead there."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[ast.Call, Hit]] = {}  # the function as it is called: one call, and its finding

    def at_call(self, hits: Iterable[Hit], event: Event, job: Job) -> Iterator[Hit]:
        """Yield findings of another file at the call in the job's own file that leads there."""
        calls = [call for source, call in event.via if source is job.source]
        for hit in hits:
            if event.source is job.source or not calls:
                yield hit
                continue
            line = getattr(event.node, "lineno", 0)
            message = f"{hit.message.removesuffix('.')} ({PurePath(event.source.name).name}, line {line})."
            moved = replace(hit, node=calls[-1], source=job.source, message=message, repair=None)
            self._calls.setdefault(ast.unparse(calls[-1].func), (calls[-1], moved))
            yield moved

    def other_calls(self, job: Job) -> Iterator[Hit]:
        """Yield the same findings at other calls of the same functions: the engine follows a function once."""
        for event in job.events if self._calls else ():
            if isinstance(event, Called) and event.inside and event.source is job.source and event.where.hot:
                call, hit = self._calls.get(ast.unparse(event.node.func), (event.node, None))
                if hit is not None and call is not event.node:
                    yield replace(hit, node=event.node)


def gathering(event: Event) -> tuple[Source, ast.Call] | None:
    """Return the call of a function that gathers from all ranks what is read here; None if it is no such function."""
    if not event.via or event.where.function.rpartition(".")[2] in {"forward", "training_step"}:
        return None
    for above in reversed(around(event.source, event.node)):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            line = getattr(event.node, "lineno", 0)
            calls = (node for node in below(above) if isinstance(node, ast.Call) and node.lineno < line)
            gathers = (
                any(map(_is_collective, calls))
                and len(above.body) <= _LONGEST
                and loop_around(event.source, event.node) is None
            )
            return event.via[-1] if gathers else None
    return None


def _is_collective(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in _COLLECTIVES
        and ast.unparse(node.func.value) in {"dist", "torch.distributed", "distributed"}
    )
