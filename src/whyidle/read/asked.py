"""What a job was asked to be set to (`whyidle run --set`) beside what it was seen to be set to: where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from whyidle.model.evidence import Fact, StepLog
from whyidle.read.typed import WRONG, Int

MOST: Final = 64  # settings
OF_SETTING: Final = "The setting "  # how each sentence begins

Options: TypeAlias = Mapping[str, msgspec.Raw]


def not_in_force(options: Options | None, logs: Sequence[StepLog]) -> Iterator[str]:
    """Yield a sentence for each setting that did not come into force, or not everywhere.

    Args:
        options: what `whyidle run` was asked for, as node.json has it.
        logs: of the machine's processes; those without a record were not watched for as long as it takes.
    """
    seen = [log for log in logs if len(log)]
    facts = [fact for log in seen for fact in log.facts]
    if not seen:
        return
    for name, value in _asked(options).items():
        text = ("off", "on")[value] if isinstance(value, bool) else value
        there = [fact.where for fact in facts if (fact.name, fact.subject) == ("set", name)]
        refused = [fact for fact in facts if (fact.name, fact.subject) == ("not_set", name)]
        yield from _sentences(f"{name}={text}", there, refused)


def _sentences(setting: str, there: Sequence[str], refused: Sequence[Fact]) -> Iterator[str]:
    if not there and not refused:
        what = "no DataLoader for it was iterated" if setting.startswith("loader:") else "the job did not come that far"
        yield f"{OF_SETTING}{setting} was not seen to come into force: {what}."
    for where, why in dict.fromkeys((fact.where, fact.value) for fact in refused):
        elsewhere = f"came into force at {there[0]}, but " if there else ""
        yield f"{OF_SETTING}{setting} {elsewhere}did not come into force at {where}: {why}."


def _asked(options: Options | None) -> dict[str, bool | int | str]:
    """Return the settings that were asked for; nothing where the file does not say, or is damaged."""
    if not options or "set" not in options:
        return {}
    try:
        given = msgspec.json.decode(options["set"], type=dict[str, bool | Int | str])
    except WRONG:
        return {}
    return dict(list(given.items())[:MOST])
