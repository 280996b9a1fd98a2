"""Every check that there is, and what they find in a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import whyidle.lint.rules as package
from whyidle.discover import discover
from whyidle.lint.base import Check, Hit
from whyidle.lint.engine import follow
from whyidle.lint.events import Event
from whyidle.lint.job import Job
from whyidle.lint.project import Project
from whyidle.lint.source import Source


@cache
def all_checks() -> tuple[type[Check], ...]:
    """Return every check, in order of its name."""
    return tuple(discover(package, Check))


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found, and the file that it stands in."""

    check: type[Check]
    hit: Hit
    source: Source
    via: tuple[tuple[Source, ast.Call], ...] = ()  # the calls of the project's functions that led there


def ask(checks: Iterable[type[Check]], source: Source, project: Project) -> list[Found]:
    """Follow a file and return what checks find, in the order in which they find it; the same place can come twice."""
    asked = [check() for check in checks]
    watching: dict[type[Event], list[Check]] = {}
    for check in asked:
        for kind in check.sees:
            watching.setdefault(kind, []).append(check)
    found: list[Found] = []

    def see(event: Event, job: Job) -> None:
        for check in watching.get(type(event), ()):
            found.extend(_found(check, check.see(event, job), event.source, event.via))

    job = follow(source, project, see)
    for check in asked:
        found.extend(_found(check, check.end(job), source))
    return found


def _found(
    check: Check, hits: Iterable[Hit], source: Source, via: tuple[tuple[Source, ast.Call], ...] = ()
) -> Iterator[Found]:
    for hit in hits:
        yield Found(type(check), hit, hit.source or source, via)
