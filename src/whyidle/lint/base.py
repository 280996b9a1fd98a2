"""What a check is: the lint of one problem, with the cases that it carries to prove itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from whyidle.lint.events import Event
from whyidle.lint.repair import Repair
from whyidle.model.finding import Effort, Severity

if TYPE_CHECKING:
    from whyidle.lint.job import Job
    from whyidle.lint.source import Source

# What it costs when it costs anything: what a finding says of itself until a run confirms or clears it.
Cost: TypeAlias = Literal[
    "drain",  # the host waits until the GPU has done all that was queued, and the GPU then waits for the host
    "copy",  # a copy between host and GPU that the host waits for
    "input",  # the GPU waits for the next batch
    "launch",  # many small launches: the host is late
    "kernel",  # the GPU works longer than it has to
    "pause",  # everything stops now and then, or for long at once
    "network",  # GPUs wait for each other
    "measure",  # nothing gets slower by it, or everything: what is measured is not what it says
]


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a check found its problem."""

    node: ast.AST  # an expression or a statement: its line and column are the finding's place
    message: str  # one sentence with a full stop: what stalls, in which circumstances
    severity: Severity
    confidence: float  # 0-1: that this line can stall as said, and does so as often as said
    source: Source | None = None  # the file, where it is another than the job's own
    also: tuple[ast.AST, ...] = ()  # other places that belong to it
    title: str = ""  # of the fix: what to do, in a few words
    change: str = ""  # code to paste
    effort: Effort = "code"
    risk: str = ""
    repair: Repair | None = None  # what --fix does; None: a person has to


@dataclass(frozen=True, slots=True)
class Case:
    """Source code to give to a check; lines at which it has to speak end in a comment `# !`."""

    why: str
    code: str

    @property
    def lines(self) -> tuple[int, ...]:
        """Return the lines at which a finding has to stand, from 1."""
        return tuple(number for number, line in enumerate(self.code.splitlines(), 1) if line.rstrip().endswith("# !"))


class Invalid(Case):
    """Code with the problem: a finding at each line that ends in `# !`, and at no other."""


class Valid(Case):
    """Code that looks like the problem and is none."""


def ends(names: Iterable[str]) -> frozenset[str]:
    """Return what stands behind the last dot of names of calls: "collect" of "gc.collect", "item" of ".item"."""
    return frozenset(name.rpartition(".")[2] for name in names)


class Check:
    """Finds one problem in source. One subclass, one file; its docstring is a part of the page of its rule.

    The file's place names it: lint/rules/sync/implicit_read.py holds "sync.implicit_read". `rule` is the id that its
    findings have; without it the name is the id. A fresh object is made for each job (file) that is linted.
    """

    name: ClassVar[str]
    rule: ClassVar[str]
    cost: ClassVar[Cost]
    cases: ClassVar[tuple[Case, ...]]
    sees: ClassVar[tuple[type[Event], ...]] = ()  # events that `see` is told of
    calls: ClassVar[frozenset[str]] = frozenset()  # of calls, those alone whose names end so; empty: all

    def __init_subclass__(cls) -> None:
        cls.name = ".".join(cls.__module__.split(".")[-2:])
        cls.rule = vars(cls).get("rule", cls.name)
        for part in ("cost", "cases", "__doc__"):
            if not getattr(cls, part, None):
                raise TypeError(f"{cls.name} has no {part}")
        if {isinstance(case, Invalid) for case in cls.cases} != {True, False}:
            raise TypeError(f"{cls.name} needs an invalid and a valid case")

    def see(self, event: Event, job: Job) -> Iterator[Hit]:  # noqa: ARG002 - what a check looks at
        """Yield what is wrong at one event; of the classes of `sees` only. The same line may come several times."""
        yield from ()

    def end(self, job: Job) -> Iterator[Hit]:  # noqa: ARG002
        """Yield what is wrong with the job as a whole, once all of it was followed."""
        yield from ()
