"""Makes repairs in the text of a file: what they do not speak of stays as it is, to the last byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from whyidle.lint.repair import Change, Import, Insert, Remove, Repair, Replace, SetArguments, Wrap
from whyidle.lint.rewrite.arguments import arguments_set
from whyidle.lint.rewrite.expressions import replaced
from whyidle.lint.rewrite.imports import imported
from whyidle.lint.rewrite.layout import tuples_laid_out
from whyidle.lint.rewrite.places import Refused, Text, parsed
from whyidle.lint.rewrite.splice import Splice, free, spliced
from whyidle.lint.rewrite.statements import inserted, removed, wrapped


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text with repairs made, and those that could not be."""

    text: str
    applied: tuple[Repair, ...] = ()
    skipped: tuple[tuple[Repair, str], ...] = ()  # and why
    splices: tuple[Splice, ...] = ()  # by which the text was made from the one before


def rewrite(text: str, repairs: Sequence[Repair]) -> Rewritten:
    """Make repairs, whose nodes belong to the tree of `text`; what comes out is Python again, or nothing changes.

    Of repairs that change the same place the first is made. The others make sense in the new text only.
    """
    known = Text(text)
    chosen: list[tuple[Repair, list[Splice]]] = []
    skipped: list[tuple[Repair, str]] = []
    for repair in repairs:
        try:
            new = [splice for change in repair.changes for splice in _splices(known, change)]
            new += tuples_laid_out(known, new)
        except Refused as refused:
            skipped.append((repair, str(refused)))
            continue
        new = [splice for splice in new if splice.start < splice.end or splice.code]
        if not new:
            skipped.append((repair, "it is done already"))
        elif free(new, (splice for _, splices in chosen for splice in splices)):
            chosen.append((repair, new))
        else:
            skipped.append((repair, "another fix changes the same place"))
    if not _is_python(spliced(text, _all(chosen))):
        chosen, bad = _sound(text, chosen)
        skipped += [(repair, "the result would not be Python") for repair in bad]
    splices = _all(chosen)
    return Rewritten(spliced(text, splices), tuple(repair for repair, _ in chosen), tuple(skipped), tuple(splices))


def _all(chosen: Iterable[tuple[Repair, list[Splice]]]) -> list[Splice]:
    """Return the splices of several repairs; what two of them want alike is done once."""
    return list(dict.fromkeys(splice for _, splices in chosen for splice in splices))


def _sound(
    text: str, chosen: Iterable[tuple[Repair, list[Splice]]]
) -> tuple[list[tuple[Repair, list[Splice]]], list[Repair]]:
    """Return the repairs after which the text is still Python, one after the other, and those after which it is not."""
    good: list[tuple[Repair, list[Splice]]] = []
    bad: list[Repair] = []
    for one in chosen:
        if _is_python(spliced(text, _all([*good, one]))):
            good.append(one)
        else:
            bad.append(one[0])
    return good, bad


def _splices(text: Text, change: Change) -> list[Splice]:
    match change:
        case SetArguments():
            return [arguments_set(text, change)]
        case Replace():
            return [replaced(text, change)]
        case Remove():
            return [removed(text, change)]
        case Insert():
            return [inserted(text, change)]
        case Wrap():
            return wrapped(text, change)
        case Import():
            new = imported(text, change)
            return [] if new is None else [new]
        case _:
            assert_never(change)


def _is_python(text: str) -> bool:
    try:
        parsed(text)
    except (SyntaxError, ValueError):
        return False
    return True
