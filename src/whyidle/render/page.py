"""A problem's page at a terminal: what it is, what to change, what shows in the source, the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.text import Text

from whyidle.lint.base import Check
from whyidle.model.finding import GROUPS
from whyidle.render.bars import MEANINGS
from whyidle.render.base import Look
from whyidle.render.lines import hang
from whyidle.render.passages import EFFORT, code
from whyidle.render.problems import HOW, IGNORE, Problem, changes, docstring, sections, summary
from whyidle.render.terminal import write
from whyidle.rules.base import Rule, Threshold

# Causes that a finding may name beside its own and that have no rule yet.
NO_RULE_YET = {
    "dist.pcie_topology": "GPUs of one machine sit behind different PCIe switches or CPUs, with no direct links",
}


def page(problem: Problem, look: Look) -> str:
    """Return what a problem is and what to change, then what lint finds of it, then thresholds with their sources."""
    return write(_page(problem, min(look.width, 100)), look)


def index(problems: Sequence[Problem], look: Look) -> str:
    """Return all problems by family, a line each."""
    return write(_index(problems, min(look.width, 120)), look)


def no_rule_yet(name: str, look: Look) -> str:
    """Return what a cause is of which a finding says that it may be it, too."""
    return write(
        hang(Text(f"  {name}  ", style="bold"), Text(f"no rule yet. {_sentence(NO_RULE_YET[name])}"), look.width), look
    )


def label_of(name: str) -> str | None:
    """Return the label of the picture that is meant: by itself, or by one of its causes; None if it is none."""
    wanted = name.lower().replace("_", " ")
    return next(
        (
            label
            for label, causes in GROUPS.items()
            if wanted in {label, *(cause.replace("_", " ") for cause in causes)}
        ),
        None,
    )


def idle_cause(label: str, rules: Sequence[type[Rule]], look: Look) -> str:
    """Return what a label of the picture means, which causes it joins, and which rules speak of them."""
    width = min(look.width, 100)
    names = {f"idle_{cause}_share" for cause in GROUPS[label]}
    speak = [rule.id for rule in rules if names & {*rule.uses, *(name for needed in rule.needs for name in needed)}]
    lines = [
        *hang(Text(f"  {label}  ", style="bold"), Text(MEANINGS[label]), width),
        *hang(Text("  causes  ", style="bold"), Text(", ".join(GROUPS[label])), width),
        *hang(Text("  rules   ", style="bold"), Text(", ".join(speak) or "none speaks of it"), width),
    ]
    return write(lines, look)


def about_and_ignore(speaker: type[Rule | Check]) -> tuple[str, str]:
    """Return a docstring in two parts: up to when to ignore it, and that; between them stands what to change."""
    about, mark, ignore = docstring(speaker).partition(f"## {IGNORE}")
    return about.strip(), mark + ignore


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _page(problem: Problem, width: int) -> Iterator[Text]:
    about, ignore = about_and_ignore(problem.first)
    yield Text(f"  {problem.id}", style="bold")
    yield Text()
    yield from _prose(about, width)
    fixes = changes(problem.first)
    if fixes:
        yield Text("  What to change", style="bold")
    for fix in fixes:
        risk = f"; {fix.risk}" if fix.risk else ""
        yield from hang(Text("  "), Text(f"{fix.title} ({EFFORT[fix.effort]}{risk}):"), width)
        for line in fix.change.splitlines():
            yield from (Text(f"      {row}", style="cyan") for row in code(line, width - 6))
        yield Text()
    yield from _prose(ignore, width)
    if problem.beside:
        yield from _in_the_source(problem.beside, width)
    if problem.rule is not None:
        yield from _numbers(problem.rule, width)


def _in_the_source(checks: Iterable[type[Check]], width: int) -> Iterator[Text]:
    """Yield what `whyidle lint` finds of it: why it costs time is said above."""
    yield Text("  In the source, by whyidle lint", style="bold")
    for check in checks:
        yield from hang(Text("  "), Text(f"{summary(check)} ({check.name})"), width)
        told = sections(check)
        for label, part in (("seen", told.get(HOW, "")), ("ignore", told.get(IGNORE, ""))):
            for number, paragraph in enumerate(filter(None, part.split("\n\n"))):
                head = Text(f"      {'' if number else label:<8}", style="dim")
                yield from hang(head, Text(" ".join(paragraph.split())), width)
        yield Text()


def _numbers(rule: type[Rule], width: int) -> Iterator[Text]:
    """Yield what the rule reads and decides by."""
    yield Text("  The numbers behind it", style="bold")
    thresholds = {name: value for name, value in vars(rule).items() if isinstance(value, Threshold)}
    for name, value in thresholds.items():
        head_text = f"  {name.replace('_', ' ')}: {float(value):g} {value.unit}"
        yield from hang(Text(f"{head_text:<34}  "), Text(value.source), width, indent=36)
    yield from hang(Text("  needs "), Text(" or ".join(" + ".join(names) for names in rule.needs)), width)
    if rule.uses:
        yield from hang(Text("  uses  "), Text(", ".join(rule.uses)), width)


def _prose(text: str, width: int) -> Iterator[Text]:
    for paragraph in filter(None, text.split("\n\n")):
        head, _, rest = paragraph.partition("\n")
        titled = head.startswith("## ")
        if titled:
            yield Text(f"  {head.removeprefix('## ')}", style="bold")
        yield from _paragraph(rest if titled else paragraph, width)
        yield Text()


def _paragraph(text: str, width: int) -> Iterator[Text]:
    """Yield a paragraph filled to the width; lists and code keep their lines."""
    lines = text.splitlines()
    if not lines:
        return
    if any(line.startswith(("    ", "- ", "* ", "|", "```")) for line in lines):
        yield from (Text(f"  {line}") for line in lines)
    else:
        yield from hang(Text("  "), Text(" ".join(lines)), width)


def _index(problems: Sequence[Problem], width: int) -> Iterator[Text]:
    size = max((len(problem.id) for problem in problems), default=0)
    for number, (_, family) in enumerate(groupby(problems, key=lambda problem: problem.id.partition(".")[0])):
        if number:
            yield Text()
        for problem in family:
            yield from hang(Text(f"  {problem.id:<{size}}  ", style="bold"), Text(problem.summary), width)
