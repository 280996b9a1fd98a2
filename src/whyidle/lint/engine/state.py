"""What the engine holds while it follows a program: the frame of each function, what it has seen, whom it tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from whyidle.lint.engine.callees import Callees
from whyidle.lint.engine.traits import Traits
from whyidle.lint.events import Event
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.project import Definition, Module, Project
from whyidle.lint.source import Source
from whyidle.lint.values import UNKNOWN, Value
from whyidle.lint.where import Where

DEEPEST = 12  # calls within calls that are followed
CONTEXTS = 8  # ways in which one function is followed; from then on the last answer stands
FOREIGN = 400  # functions of other modules that are followed for one file


@dataclass(slots=True)
class Frame:
    """One function, or a module's body, being followed."""

    module: Module
    where: Where
    env: dict[str, Value]
    definition: Definition | None = None
    owner: Definition | None = None  # class whose method it is
    outer: Frame | None = None  # the frame of the function that it is defined in
    result: Value = UNKNOWN
    returned: bool = False
    losses: frozenset[str] = frozenset()  # names that .backward() is called on
    via: tuple[tuple[Source, ast.Call], ...] = ()  # the calls that led here, outermost first
    statement: ast.stmt = field(default_factory=ast.Pass)


class State:
    """Everything that lasts while one job is followed."""

    def __init__(self, source: Source, project: Project, see: Callable[[Event, Job], None]) -> None:
        self.project = project
        self.callees = Callees(project)
        self.traits = Traits(self.callees)
        self.job = Job(source)
        self.see = see
        self.frame: Frame = Frame(project.module(source), Where(), {})
        self.visited: set[int] = set()
        self.answers: dict[tuple[object, ...], Value] = {}
        self.contexts: dict[int, int] = {}
        self.running: set[int] = set()
        self.entered: dict[int, Where] = {}  # from where functions are called, in the hottest place: by identity
        self.foreign = 0  # functions of other modules that were followed
        self.loaders: dict[int, LoaderUse] = {}
        self.globals: dict[int, Frame] = {}  # of modules, by identity
        self.closures: dict[int, Frame] = {}  # of functions in functions: where each was defined last
        self.fields: dict[int, dict[str, Value]] = {}  # of classes that nobody constructs in view

    def emit(self, event: Event) -> None:
        """Keep an event and tell who watches."""
        self.job.events.append(event)
        self.see(event, self.job)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Tell nobody meanwhile: what is evaluated here is evaluated elsewhere, too."""
        see, kept = self.see, len(self.job.events)
        self.see = _nobody
        yield
        self.see = see
        del self.job.events[kept:]

    @property
    def place(self) -> dict[str, Any]:
        """Return what every event has: source, where, statement, via."""
        frame = self.frame
        return {
            "source": frame.module.source,
            "where": frame.where,
            "statement": frame.statement,
            "via": frame.via,
        }

    def be(self, **changes: object) -> Where:
        """Change where the frame is, and return where it was."""
        before = self.frame.where
        self.frame.where = replace(before, **changes)  # type: ignore[arg-type]
        return before

    # What the parts of the engine, in other files, offer each other.

    def evaluate(self, node: ast.expr | None) -> Value:
        raise NotImplementedError

    def member(self, base: Value, attr: str) -> Value:
        raise NotImplementedError

    def setting(self, name: str, value: Value, node: ast.AST) -> None:
        raise NotImplementedError

    def call(self, node: ast.Call) -> Value:
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Value) -> None:
        raise NotImplementedError

    def iterate(self, node: ast.expr) -> tuple[Value, Value]:
        raise NotImplementedError

    def taken(self, over: Value, outer: Where, inside: Where) -> None:
        raise NotImplementedError

    def body(self, statements: Sequence[ast.stmt]) -> None:
        raise NotImplementedError

    def invoke(
        self,
        definition: Definition,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        node: ast.Call | None,
        owner_value: Value | None = None,
    ) -> Value:
        raise NotImplementedError


def _nobody(_: Event, __: Job) -> None:
    return None
