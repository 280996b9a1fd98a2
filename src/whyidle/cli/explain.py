"""`whyidle explain`: a rule's page, or what a label of the report means."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from whyidle.cli._destination import destination
from whyidle.errors import WhyIdleError
from whyidle.render.page import NO_RULE_YET, idle_cause, index, label_of, no_rule_yet, page
from whyidle.render.problems import known
from whyidle.rules import all_rules


def explain(
    rule: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RULE", help="Such as input.workers_zero, or a cause of idle time; none lists all rules."
        ),
    ] = None,
) -> int:
    """Explain a rule: why it costs time, how we know, what to change, when to ignore it.

    Below that stand what `whyidle lint` finds of it in source code, and the numbers that the rule decides by, each with
    its source. Takes the causes of idle time, too.

    For example:

        whyidle explain
        whyidle explain input.workers_zero
        whyidle explain host dispatch
    """
    problems = known()
    of_checks = {check.name: problem for problem in problems.values() for check in problem.checks}
    name = " ".join(rule or ())
    label = label_of(name)
    with destination() as out:
        if not name:
            out.write(index(list(problems.values()), out.look))
        elif problem := problems.get(name) or of_checks.get(name):
            out.write(page(problem, out.look))
        elif name in NO_RULE_YET:
            out.write(no_rule_yet(name, out.look))
        elif label is not None:
            out.write(idle_cause(label, all_rules(), out.look))
        else:
            raise WhyIdleError(f"no rule is called {name!r}", _suggestion(name, list(problems | of_checks)))
    return 0


def _suggestion(wrong: str, known: list[str]) -> str:
    """Return a hint: rules with a close name, or of the family, or with the same last part."""
    wrong = wrong.lower()
    close = difflib.get_close_matches(wrong, known, n=3, cutoff=0.6)
    close += [rule for rule in known if rule not in close and wrong in (rule.partition(".")[0], rule.partition(".")[2])]
    close = close or [rule for rule in known if len(wrong) >= 3 and wrong in rule]
    if close:
        return f"did you mean {' or '.join(close[:3])}?" if len(close) <= 3 else f"one of: {', '.join(close)}"
    return "`whyidle explain` lists all rules"
