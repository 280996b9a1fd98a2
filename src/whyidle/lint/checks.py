"""Every check that there is, and what they find in a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

import whyidle.lint.rules as package
from whyidle.discover import discover
from whyidle.lint.base import Check, Hit
from whyidle.lint.engine import follow
from whyidle.lint.events import Called, Event
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
    kinds = tuple(checks)
    asked, watching = [kind() for kind in kinds], _watching(kinds)
    found: list[Found] = []

    def see(event: Event, job: Job) -> None:
        end = event.name.rpartition(".")[2] if isinstance(event, Called) else ""
        told = watching.get((type(event), end)) or watching.get((type(event), ""), ())
        for check in (asked[number] for number in told):
            for hit in check.see(event, job):
                called = next((place for place, call in event.via if call is hit.node), event.source)
                found.append(Found(type(check), hit, hit.source or called, event.via))

    job = follow(source, project, see)
    places: dict[int, Event] = {}
    for check in asked:
        for hit in check.end(job):
            places = places or {id(event.node): event for event in job.events}
            event = places.get(id(hit.node))  # which tells the file, where it is another than the job's own
            place = hit.source or (event.source if event is not None else source)
            found.append(Found(type(check), hit, place, event.via if event is not None else ()))
    return found


@lru_cache(4)
def _watching(checks: tuple[type[Check], ...]) -> dict[tuple[type[Event], str], tuple[int, ...]]:
    """Return which checks are told of which events: of calls by the end of their name, "" for all other names."""
    kinds = {kind for check in checks for kind in check.sees}
    ends = {"", *(end for check in checks for end in check.calls)}
    return {
        (kind, end): tuple(
            number
            for number, check in enumerate(checks)
            if kind in check.sees and (kind is not Called or not check.calls or end in check.calls)
        )
        for kind in kinds
        for end in (ends if kind is Called else {""})
    }
