"""A problem's page joins the rule that judges recordings and the checks that read source."""

from __future__ import annotations

from pathlib import Path

import document
import whyidle.lint.rules
from whyidle.lint.base import Check, Invalid, Valid
from whyidle.render.base import Look
from whyidle.render.page import index, page
from whyidle.render.problems import Problem, joined, markdown, sections
from whyidle.rules import all_rules

CASES = (Invalid("the loss, in each step", "loss.item()  # !"), Valid("now and then", "if step % 100 == 0:\n    pass"))


class MethodRead(Check):
    """A method reads a tensor back in each step: `loss.item()`.

    ## Why it costs time
    The host waits until the GPU has done all that was queued, and the GPU then waits for the host.

    ## How we know
    The value is made by the model, and the line stands in the training loop.

    ## When to ignore it
    The value decides what happens next.
    """

    __module__ = "whyidle.lint.rules.sync.method_read"
    rule = "sync.scalar_read"
    cost = "drain"
    cases = CASES


class TextRead(MethodRead):
    """A device tensor is made text in each step.

    ## Why it costs time
    Its value is read for it.

    ## How we know
    An f-string in the loop.

    ## When to ignore it
    Never.
    """

    __module__ = "whyidle.lint.rules.sync.text_read"
    rule = "sync.scalar_read"


class MadeUp(MethodRead):
    """Something is left on that belongs to debugging.

    ## Why it costs time
    It checks every operation.

    ## How we know
    The call stands there.

    ## When to ignore it
    You are debugging.
    """

    __module__ = "whyidle.lint.rules.measure.made_up"


ALL = joined(all_rules(), (TextRead, MadeUp, MethodRead))
LOOK = Look(width=80)


def test_checks_join_their_rule_or_stand_alone() -> None:
    assert ALL["sync.scalar_read"].checks == (MethodRead, TextRead)
    assert ALL["sync.scalar_read"].summary.startswith("The loop reads single values back")
    assert ALL["measure.made_up"] == Problem("measure.made_up", None, (MadeUp,))
    assert ALL["measure.made_up"].summary == "Something is left on that belongs to debugging."
    assert ALL["host.numa"].checks == ()
    assert list(ALL) == sorted(ALL)


def test_several_checks_without_a_rule_are_led_by_the_one_of_the_same_name() -> None:
    class Another(MethodRead):
        """Another thing is left on."""

        __module__ = "whyidle.lint.rules.measure.another"
        rule = "measure.made_up"

    problem = joined((), (Another, MadeUp))["measure.made_up"]
    assert problem.first is MadeUp
    assert problem.beside == (Another,)
    assert joined((), (Another,))["measure.made_up"].first is Another


def test_sections() -> None:
    assert sections(MadeUp) == {
        "Why it costs time": "It checks every operation.",
        "How we know": "The call stands there.",
        "When to ignore it": "You are debugging.",
    }


def test_a_page_of_both() -> None:
    text = page(ALL["sync.scalar_read"], LOOK)
    heads = (
        "sync.scalar_read", "Why it costs time", "How we know", "What to change", "When to ignore it", "In the source",
        "`loss.item()`. (sync.method_read)", "A device tensor is made text", "The numbers behind it",
    )  # fmt: skip
    places = [text.index(head) for head in heads]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= 80


def test_a_page_of_checks_alone() -> None:
    text = page(ALL["measure.made_up"], LOOK)
    assert text.split("\n\n")[1:] == [
        "  Something is left on that belongs to debugging.",
        "  Why it costs time\n  It checks every operation.",
        "  How we know\n  The call stands there.",
        "  When to ignore it\n  You are debugging.",
        "",
    ]


def test_the_index_lists_both() -> None:
    text = index(list(ALL.values()), LOOK)
    assert "  measure.made_up " in text
    assert text.count("  sync.scalar_read ") == 1


def test_the_same_as_markdown() -> None:
    text = markdown(ALL["sync.scalar_read"])
    assert text.index("## When to ignore it") < text.index("## In the source") < text.index("**sync.text_read**: ")
    assert markdown(ALL["measure.made_up"]).count("Something is left on") == 1


def test_a_docs_page_of_both() -> None:
    text = document.problem_page(ALL["sync.scalar_read"])
    first = text.splitlines()[0]
    assert "src/whyidle/rules/sync/scalar_read.py and src/whyidle/lint/rules/sync/method_read.py" in first
    heads = ("## When to ignore it", "## In the source", "### sync.method_read", "#### What it finds",
             "The loss, in each step:\n\n```python\nloss.item()  # !\n```", "#### What it leaves alone",
             "### sync.text_read", "## The numbers behind it")  # fmt: skip
    places = [text.index(head) for head in heads]
    assert places == sorted(places)


def test_a_docs_page_of_checks_alone() -> None:
    text = document.problem_page(ALL["measure.made_up"])
    assert "**Something is left on that belongs to debugging.**" in text
    assert text.count("Something is left on") == 1
    assert "\n### What it finds\n" in text
    assert "The numbers behind it" not in text


def test_every_folder_of_checks_is_a_package() -> None:
    """Checks in one that is none would not be found, and nobody would miss them."""
    folders = {path.parent for path in Path(whyidle.lint.rules.__file__).parent.rglob("*.py")}
    assert [folder.name for folder in folders if not (folder / "__init__.py").is_file()] == []
