"""Checks that do little, for tests of what stands around checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.repair import Repair, Replace

_CASES = (Invalid("one", "x.item()  # !"), Valid("none", "x"))


class Reads(Check):
    """Every `.item()`, wherever it stands."""

    rule = "sync.scalar_read"
    cost = "drain"
    cases = _CASES
    sees = (Called,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        assert isinstance(event, Called)
        if event.name == ".item":
            assert isinstance(event.node.func, ast.Attribute)
            repair = Repair(
                (Replace(event.node, ast.unparse(event.node.func.value)),), safe=True, note="a tensor stays"
            )
            severity = "medium" if event.where.phase == "step" else "low"
            yield Hit(event.node, "`.item()` waits.", severity, 0.9, title="Keep the tensor", change="x", repair=repair)


class Prints(Check):
    """Every call of `print`, as a read that matters less."""

    rule = "sync.scalar_read"
    cost = "drain"
    cases = _CASES
    sees = (Called,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if isinstance(event, Called) and event.name.rpartition(".")[2] == "print":
            yield Hit(event.node, "`print` waits.", "low", 0.5)


class Loaders(Check):
    """Every loader, once all of the file is known."""

    rule = "input.workers_zero"
    cost = "input"
    cases = _CASES

    def end(self, job: Job) -> Iterator[Hit]:
        for use in job.loaders:
            yield Hit(use.call.node, "No workers.", "medium", 0.7, source=use.call.source)


Reads.name, Prints.name, Loaders.name = "sync.made_up_read", "sync.made_up_print", "input.made_up_loader"
CHECKS: tuple[type[Check], ...] = (Reads, Prints, Loaders)
