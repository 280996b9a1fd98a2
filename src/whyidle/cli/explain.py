"""`whyidle explain`: a rule's page."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from whyidle.cli._destination import destination
from whyidle.errors import WhyIdleError
from whyidle.render.page import index, page
from whyidle.rules import all_rules


def explain(
    rule: Annotated[
        str | None, typer.Argument(metavar="RULE", help="Such as input.workers_zero; none lists them all.")
    ] = None,
) -> int:
    """Explain a rule and the numbers that it decides by.

    Why the problem costs time, how we know, when to ignore it, and each threshold with its source.

    For example:

        whyidle explain
        whyidle explain input.workers_zero
    """
    rules = {known.id: known for known in all_rules()}
    if rule is not None and rule not in rules:
        raise WhyIdleError(f"no rule is called {rule!r}", _suggestion(rule, list(rules)))
    with destination() as out:
        look = out.look
        out.write(index(list(rules.values()), look) if rule is None else page(rules[rule], look))
    return 0


def _suggestion(wrong: str, known: list[str]) -> str:
    """Return a hint: rules with a close name, or of the family, or with the same last part."""
    wrong = wrong.lower()
    close = difflib.get_close_matches(wrong, known, n=3, cutoff=0.6)
    close += [rule for rule in known if rule not in close and wrong in (rule.partition(".")[0], rule.partition(".")[2])]
    if close:
        return f"did you mean {' or '.join(close[:3])}?" if len(close) <= 3 else f"one of: {', '.join(close)}"
    return "`whyidle explain` lists all rules"
