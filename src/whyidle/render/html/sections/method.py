"""How the page came to what it says: words that it uses, and the page of each rule that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from whyidle.model.finding import Finding, Fix, Report
from whyidle.render.html.prose import prose
from whyidle.render.html.section import Section, filled
from whyidle.render.page import NO_RULE_YET, about_and_ignore
from whyidle.render.passages import EFFORT
from whyidle.render.problems import Problem, changes, known, sections, summary
from whyidle.rules.base import Threshold


@dataclass(frozen=True, slots=True)
class Note:
    """The page of a rule, as `whyidle explain` has it."""

    rule: str
    summary: str
    about: Markup | str = ""
    ignore: Markup | str = ""
    fixes: Sequence[tuple[Fix, str]] = ()  # with what it takes
    thresholds: Sequence[tuple[str, Threshold]] = ()
    checks: Sequence[tuple[str, str, Markup]] = ()  # what lint finds of it: its name, a sentence, how it knows
    findings: Sequence[int] = ()  # the ranks of those that are of it, from 1 on


def section(report: Report) -> Section | None:
    """Return short definitions, and a note on each rule that found something or is named beside one.

    None where nothing was judged: there is no word to define.
    """
    notes = tuple(_notes(report))
    if not (report.judged or notes):
        return None
    return Section("method", "Method", filled("method", report=report, notes=notes))


def named(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the rules of findings and those that they could also be, in order of first mention."""
    mentioned = (rule for finding in findings for rule in (finding.rule, *finding.candidates))
    return tuple(dict.fromkeys(mentioned))


def _notes(report: Report) -> Iterator[Note]:
    wanted = dict.fromkeys([*named(report.findings), *named(report.cleared), *_following(report)])
    every = known() if wanted else {}
    for rule in wanted:
        if rule in every:
            numbers = [number for number, finding in enumerate(report.findings, start=1) if finding.rule == rule]
            yield _note(every[rule], numbers)
        elif rule in NO_RULE_YET:
            yield Note(rule, f"No rule yet: {NO_RULE_YET[rule]}.")


def _following(report: Report) -> Iterator[str]:
    """Yield the rules that become the limit once something is mended."""
    if report.prediction is not None:
        yield from (applied.then for applied in report.prediction.sequence if applied.then)


def _note(problem: Problem, numbers: Sequence[int]) -> Note:
    about, ignore = about_and_ignore(problem.first)
    numbered = vars(problem.rule) if problem.rule is not None else {}
    return Note(
        problem.id,
        summary(problem.first),
        prose(about.partition("\n\n")[2]),  # what comes before is the summary
        prose(ignore),
        [(fix, EFFORT[fix.effort]) for fix in changes(problem.first)],
        [(name.replace("_", " "), value) for name, value in numbered.items() if isinstance(value, Threshold)],
        [(check.name, summary(check), prose(_how(sections(check)), 4)) for check in problem.beside],
        numbers,
    )


def _how(told: dict[str, str]) -> str:
    """Return what a check says but for why it costs time, which the rule says."""
    return "\n\n".join(f"## {head}\n{body}" for head, body in list(told.items())[1:])
