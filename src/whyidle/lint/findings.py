"""From one file to its findings: what all checks say about it, said once, and not where a person asked for silence."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from whyidle.lint.base import Check, Hit
from whyidle.lint.checks import Found, all_checks, ask
from whyidle.lint.engine import concerned
from whyidle.lint.source import Source, cell_words, lines_of
from whyidle.lint.suppressed import ALL, FILE, is_ignored
from whyidle.model.finding import Finding, Fix, Location, Patch, Severity

if TYPE_CHECKING:
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
    with _deep():
        found = ask(checks, source, project)
    return once(
        Linted(finding(one), one.check.name, one.hit, one.source)
        for one in found
        if not (_is_ignored(one) or (settings is not None and _is_silenced(one, source, settings)))
    )


def _is_ignored(one: Found) -> bool:
    """Say whether a comment asks for silence, where it was found or at a call that led there."""
    names = (one.check.name, one.check.rule)
    return any(is_ignored(source, node, names) for source, node in ((one.source, one.hit.node), *one.via))


def _is_silenced(one: Found, linted_from: Source, settings: Settings) -> bool:
    """Say whether settings ask for silence; a file that is linted was meant, whatever folders leave out."""
    names = (one.check.name, one.check.rule)
    return settings.silences(names, one.source.path, named=one.source is linted_from)


def asked(settings: Settings) -> tuple[type[Check], ...]:
    """Return the checks that these settings ask for."""
    return tuple(check for check in all_checks() if settings.asks((check.name, check.rule)))


@contextmanager
def _deep() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def finding(found: Found) -> Finding:
    """Return what a check found as a finding of its rule."""
    hit = found.hit
    patch = None if hit.repair is None else Patch(hit.repair.safe, hit.repair.note)
    fix = Fix(hit.title, hit.change, hit.effort, risk=hit.risk, patch=patch)
    places = ((found.source, hit.node), *((found.source, node) for node in hit.also), *reversed(found.via))
    return Finding(
        rule=found.check.rule,
        severity=hit.severity,
        confidence=hit.confidence,
        message=hit.message,
        lost_share=None,
        locations=tuple(location(node, source) for source, node in places),
        fixes=(fix,) if hit.title or patch else (),
        evidence="source",
    )


def location(node: ast.AST, source: Source) -> Location:
    """Return where a node stands; the column counts characters, where Python counts bytes."""
    number = getattr(node, "lineno", 1)
    lines = lines_of(source.text)
    line = lines[number - 1] if number <= len(lines) else ""
    column = len(line.encode("utf-8", "surrogatepass")[: getattr(node, "col_offset", 0)].decode("utf-8", "replace")) + 1
    cell = source.cell(number)
    return Location(source.name, number, column, line.rstrip(), name=None if cell is None else cell_words(cell))


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
