"""From one file to its findings: every check told what the engine meets, and what they say said once."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from whyidle.lint.base import Check, Hit
from whyidle.lint.checks import all_checks
from whyidle.lint.engine import concerned, follow
from whyidle.lint.events import Event
from whyidle.lint.source import Source, cell_words, lines_of
from whyidle.lint.suppressed import ALL, FILE, is_ignored
from whyidle.model.finding import Finding, Fix, Location, Patch, Severity

if TYPE_CHECKING:
    from whyidle.lint.job import Job
    from whyidle.lint.project import Project
    from whyidle.lint.settings import Settings

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")  # in the order of reports
# Each term of `a + b + ...` and each `elif` is a level; Python's own parser goes 6,000 deep, and 3.11's tree builder
# runs out of stack somewhere above 20,000, for which it allows three times this limit.
DEPTH = 5_000


@dataclass(frozen=True, slots=True)
class Said:
    """A finding, and the name of the check that made it."""

    finding: Finding
    check: str

    @property
    def place(self) -> tuple[str, int, int]:
        """Return its file, line and column."""
        location = self.finding.locations[0]
        return location.file, location.line or 0, location.column or 0


S = TypeVar("S", bound=Said)


@dataclass(frozen=True, slots=True)
class Linted(Said):
    """A finding, with what --fix needs to mend it."""

    hit: Hit
    source: Source  # the file that it stands in


def linted(
    source: Source, project: Project, checks: Sequence[type[Check]], settings: Settings | None = None
) -> list[Linted]:
    """Return what these checks find in a file and in the functions of the project that it calls.

    Args:
        source: the file.
        project: where the modules lie that it imports.
        checks: those that are asked; see `asked`.
        settings: of files in which they are not wanted.

    Raises:
        RecursionError: for code that nests deeper than we follow.
    """
    if source.ignored.get(FILE) == ALL or not concerned(source.text):
        return []
    found = []
    for check, hit in hits(source, project, checks):
        stands_in = hit.source or source
        names = (check.name, check.rule)
        named = stands_in is source  # a file that is linted was asked for, whatever folders leave out
        if is_ignored(stands_in, hit.node, names) or (settings and settings.silences(names, stands_in.path, named)):
            continue
        found.append(Linted(finding(check, hit, stands_in), check.name, hit, stands_in))
    return once(found)


def asked(settings: Settings) -> tuple[type[Check], ...]:
    """Return the checks that these settings ask for."""
    return tuple(check for check in all_checks() if settings.asks((check.name, check.rule)))


def hits(source: Source, project: Project, checks: Sequence[type[Check]]) -> list[tuple[type[Check], Hit]]:
    """Follow a file and return all that the checks say, as they say it."""
    made = [check() for check in checks]
    told: dict[type[Event], list[Check]] = {}
    found: list[tuple[type[Check], Hit]] = []

    def see(event: Event, job: Job) -> None:
        kind = type(event)
        if kind not in told:
            told[kind] = [check for check in made if issubclass(kind, check.sees)]
        for check in told[kind]:
            found.extend((type(check), hit) for hit in check.see(event, job))

    with _deep():
        job = follow(source, project, see)
        for check in made:
            found.extend((type(check), hit) for hit in check.end(job))
    return found


@contextmanager
def _deep() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def finding(check: type[Check], hit: Hit, source: Source) -> Finding:
    """Return what a hit says as a finding of its rule."""
    patch = None if hit.repair is None else Patch(hit.repair.safe, hit.repair.note)
    fix = Fix(hit.title, hit.change, hit.effort, risk=hit.risk, patch=patch)
    return Finding(
        rule=check.rule,
        severity=hit.severity,
        confidence=hit.confidence,
        message=hit.message,
        lost_share=None,
        locations=tuple(location(node, source) for node in (hit.node, *hit.also)),
        fixes=(fix,) if hit.title or patch else (),
    )


def location(node: ast.AST, source: Source) -> Location:
    """Return where a node stands; the column counts characters, where Python counts bytes."""
    number = getattr(node, "lineno", 1)
    lines = lines_of(source.text)
    line = lines[number - 1] if number <= len(lines) else ""
    column = len(line.encode("utf-8", "surrogatepass")[: getattr(node, "col_offset", 0)].decode("utf-8", "replace")) + 1
    cell = source.cell(number)
    return Location(source.name, number, column, line.strip(), name=None if cell is None else cell_words(cell))


def once(found: Iterable[S]) -> list[S]:
    """Return each finding once, in the order of a report.

    What a check says several times of one place, it says as strongly as it ever did; and of checks that say the same of
    a line, the strongest speaks.
    """
    strongest: dict[object, S] = {}
    for one in found:
        _keep(strongest, (one.check, one.place), one)
    speaks: dict[object, S] = {}
    for one in strongest.values():
        _keep(speaks, (one.finding.rule, one.place[:2]), one)
    chosen = [one for one in strongest.values() if speaks[one.finding.rule, one.place[:2]].check == one.check]
    return sorted(chosen, key=order)


def _keep(best: dict[object, S], key: object, one: S) -> None:
    if key not in best or _strength(one) > _strength(best[key]):
        best[key] = one


def _strength(one: Said) -> tuple[int, float]:
    return -SEVERITIES.index(one.finding.severity), one.finding.confidence


def order(one: Said) -> tuple[int, str, int, int, str]:
    """Return what orders findings: severity, then the place."""
    return SEVERITIES.index(one.finding.severity), *one.place, one.check
