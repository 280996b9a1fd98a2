"""What whyidle knows of a problem by its id: the rule that judges recordings, and the checks that read source."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from whyidle.lint.base import Check, Invalid
from whyidle.lint.checks import all_checks, ask
from whyidle.lint.project import Project
from whyidle.lint.source import Source
from whyidle.model.finding import Fix
from whyidle.rules import all_rules
from whyidle.rules.base import Rule

WHY, HOW, IGNORE = "Why it costs time", "How we know", "When to ignore it"


@dataclass(frozen=True, slots=True)
class Problem:
    """One id, and all that speaks of it: a rule, checks, or both."""

    id: str
    rule: type[Rule] | None = None
    checks: tuple[type[Check], ...] = ()

    @property
    def first(self) -> type[Rule | Check]:
        """Return what its page is of: the rule, else the check of the same name, else the first."""
        return self.rule or next((check for check in self.checks if check.name == self.id), self.checks[0])

    @property
    def summary(self) -> str:
        """Return one sentence that says what it is."""
        return summary(self.first)

    @property
    def beside(self) -> tuple[type[Check], ...]:
        """Return the checks that stand below its page, as they are not what the page is of."""
        return tuple(check for check in self.checks if check is not self.first)


def known() -> dict[str, Problem]:
    """Return every problem by its id, in order."""
    return joined(all_rules(), all_checks())


def joined(rules: Iterable[type[Rule]], checks: Iterable[type[Check]]) -> dict[str, Problem]:
    """Return problems by id, in order, of rules and the checks that share their ids or stand alone."""
    found = {rule.id: Problem(rule.id, rule) for rule in rules}
    for check in sorted(checks, key=lambda check: check.name):
        told = found.get(check.rule, Problem(check.rule))
        found[check.rule] = Problem(told.id, told.rule, (*told.checks, check))
    return dict(sorted(found.items()))


def docstring(speaker: type[Rule | Check]) -> str:
    """Return what a rule or a check says of itself, as Markdown."""
    return inspect.cleandoc(speaker.__doc__ or "")


def summary(speaker: type[Rule | Check]) -> str:
    """Return the first paragraph of that, as one line."""
    return docstring(speaker).split("\n\n")[0].replace("\n", " ")


def sections(speaker: type[Rule | Check]) -> dict[str, str]:
    """Return the paragraphs under each heading, by the heading."""
    parts = re.split(r"^## (.+)\n", docstring(speaker), flags=re.MULTILINE)
    return {head: body.strip() for head, body in zip(parts[1::2], parts[2::2], strict=True)}


def changes(speaker: type[Rule | Check]) -> list[Fix]:
    """Return the changes that a rule or a check asks for in the cases in which it speaks, each once."""
    found: dict[str, Fix] = {}
    for fix in _of_rule(speaker) if issubclass(speaker, Rule) else _of_check(speaker):
        found.setdefault(fix.title, fix)
    return list(found.values())


def _of_rule(rule: type[Rule]) -> Iterator[Fix]:
    for case in rule.cases:
        if case.fires:
            for finding in rule().diagnose(case.measurements()):
                yield from finding.fixes


def _of_check(check: type[Check]) -> Iterator[Fix]:
    for case in check.cases:
        if isinstance(case, Invalid):
            source = Source(Path("job.py"), "job.py", case.code, ast.parse(case.code))
            for found in ask([check], source, Project()):
                if found.hit.title:
                    yield Fix(found.hit.title, found.hit.change, found.hit.effort, risk=found.hit.risk)


def markdown(problem: Problem) -> str:
    """Return all of it as one text."""
    return "\n\n".join([docstring(problem.first), *_beside(problem.beside)])


def _beside(checks: Iterable[type[Check]]) -> Iterator[str]:
    for number, check in enumerate(checks):
        if not number:
            yield "## In the source"
        yield f"**{check.name}**: {docstring(check).replace('## ', '### ')}"
