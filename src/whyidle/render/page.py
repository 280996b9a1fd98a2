"""A rule's page at a terminal. The page is the rule's docstring; the numbers that it decides by follow."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from whyidle.render.base import Look
from whyidle.render.lines import hang
from whyidle.render.terminal import write
from whyidle.rules.base import Rule, Threshold


def page(rule: type[Rule], look: Look) -> str:
    """Return what a rule is about, and its thresholds with their sources."""
    return write(_page(rule, min(look.width, 100)), look)


def index(rules: Sequence[type[Rule]], look: Look) -> str:
    """Return all rules by family, a line each."""
    return write(_index(rules, min(look.width, 120)), look)


def _page(rule: type[Rule], width: int) -> Iterator[Text]:
    yield Text()
    yield Text(f"  {rule.id}", style="bold")
    yield Text()
    for paragraph in inspect.cleandoc(rule.__doc__ or "").split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        titled = head.startswith("## ")
        if titled:
            yield Text(f"  {head.removeprefix('## ')}", style="bold")
        yield from _paragraph(rest if titled else paragraph, width)
        yield Text()
    thresholds = {name: value for name, value in vars(rule).items() if isinstance(value, Threshold)}
    if thresholds:
        yield Text("  Thresholds", style="bold")
    for name, value in thresholds.items():
        head_text = f"  {name.replace('_', ' ')}: {float(value):g} {value.unit}"
        yield from hang(Text(f"{head_text:<34}  "), Text(value.source), width, indent=36)
    needs = " or ".join(" + ".join(names) for names in rule.needs)
    yield Text()
    yield from hang(Text("  Needs ", style="bold"), Text(needs), width)
    if rule.uses:
        yield from hang(Text("  Uses  ", style="bold"), Text(", ".join(rule.uses)), width)
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


def _index(rules: Sequence[type[Rule]], width: int) -> Iterator[Text]:
    size = max((len(rule.id) for rule in rules), default=0)
    for _, family in groupby(rules, key=lambda rule: rule.id.partition(".")[0]):
        yield Text()
        for rule in family:
            about = inspect.cleandoc(rule.__doc__ or "").split("\n\n")[0].replace("\n", " ")
            yield from hang(Text(f"  {rule.id:<{size}}  ", style="bold"), Text(about), width)
    yield Text()
