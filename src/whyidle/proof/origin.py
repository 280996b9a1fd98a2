"""Does a recording show that a file of source ran in it, and ran as it stands now?

A recording of another program, or of the same one before it was edited, knows nothing of a line: it settles none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from whyidle.lint.source import Source
from whyidle.measure.stacks import Frame
from whyidle.model.evidence import Run
from whyidle.proof.files import Files
from whyidle.proof.spots import begin

NOT_THIS = "this recording does not show that it is of this code"
# Functions that have no name of their own in the source: lambdas, comprehensions, what torch.compile goes on with.
UNNAMED = re.compile(r"<|torch_dynamo_resume_in_|__compiled_fn")
Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Origin:
    """The files that a recording names."""

    def __init__(self, files: Files, run: Run, frames: Iterable[Frame]) -> None:
        self._files = files
        self._run = run
        self._frames = tuple(frames)

    def doubt(self, file: str) -> str:
        """Return why the recording settles nothing of a file of source; "" where it shows that this is what ran."""
        if file not in self._named:
            return NOT_THIS
        return self._changed.get(file, "")

    @cached_property
    def _named(self) -> frozenset[str]:
        recorded = (*(name for name, _, _ in self._places), *commanded(self._run))
        return frozenset(name for one in recorded if (name := self._files.name_of(one)) is not None)

    @cached_property
    def _changed(self) -> dict[str, str]:
        """Return the files in which a function does not stand where it ran, and that in words."""
        changed: dict[str, str] = {}
        scopes = {source.name: list(scopes_of(source)) for source in self._files.sources}
        for recorded, number, function in self._places:
            place = self._files.place(recorded, number)
            if place is None or place[0] in changed or not function or UNNAMED.match(function):
                continue
            name, line = place
            if not any(one.name == function and begin(one) <= line <= (one.end_lineno or 0) for one in scopes[name]):
                changed[name] = f"{name} is not what ran: `{function}` was at line {number} of it"
        return changed

    @cached_property
    def _places(self) -> tuple[tuple[str, int, str], ...]:
        """Return every file, line and function that was recorded; the function is "" where it is not known."""
        frames = [(one.file, one.line, one.function.rpartition(".")[2]) for one in self._frames]
        return (*frames, *watched(self._run))


def watched(run: Run) -> Iterator[tuple[str, int, str]]:
    """Yield the places in source that `whyidle run` wrote down."""
    for log in run.logs:
        yield from ((site.file, site.line, site.function.rpartition(".")[2]) for site in log.sync_sites)
        stacks = (stack for worker in log.workers for stack in worker.stacks)
        yield from ((file, line, name.rpartition(".")[2]) for stack in stacks for file, line, name in stack.frames)
        for where in (*(loader.where for loader in log.loaders), *(fact.where for fact in log.facts)):
            file, _, line = where.rpartition(":")
            if line.isdecimal():
                yield file, int(line), ""


def commanded(run: Run) -> Iterator[str]:
    """Yield the scripts that the commands of a run name, launchers and their options before them or not."""
    for command in (*(node.command for node in run.nodes), *(log.process.command for log in run.logs)):
        for before, word in zip(("", *command), command, strict=False):
            if word.endswith(".py"):
                yield word
                break  # what follows are its arguments
            if before == "-m" and not word.startswith("torch."):  # as torch.distributed.run, which names a script
                yield word.replace(".", "/") + ".py"
                yield word.replace(".", "/") + "/__main__.py"
                break


def scopes_of(source: Source) -> Iterator[Scope]:
    """Yield all functions and classes of a file: a profiler names each by its last name."""
    yield from (node for node in ast.walk(source.tree) if isinstance(node, Scope))
