"""What was not measured, and how to: unknown is neither healthy nor zero."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from whyidle.model.finding import WATCH, Report
from whyidle.render.caveats import ways
from whyidle.render.html.section import Section, filled
from whyidle.render.problems import summary
from whyidle.rules import all_rules

_JOB = " -- python train.py"  # stands for the command of the reader
_PRINTS = "whyidle demo --record"  # how to record with torch.profiler


@dataclass(frozen=True, slots=True)
class Way:
    """How to get evidence, and the rules that wait for it, each with a sentence on what it judges."""

    how: str
    rules: tuple[tuple[str, str], ...]


def section(report: Report) -> Section | None:
    """Return the rules that could not be asked, by how to get what they lack; None where all could."""
    told = ways(report)
    if not told:
        return None
    about = {rule.id: summary(rule) for rule in all_rules()}
    by_command: dict[str, list[Way]] = {}
    for how, rules in told:
        way = Way(how, tuple((rule, about.get(rule, "")) for rule in rules))
        by_command.setdefault("\n".join(commands(how)), []).append(way)
    groups = sorted(by_command.items(), key=lambda group: (not group[0].startswith(WATCH), -_count(group[1])))
    return Section("unknown", "Not judged", filled("unknown", groups=groups, count=len(report.unknown), prints=_PRINTS))


def commands(how: str) -> tuple[str, ...]:
    """Return the commands that a sentence names in backticks, such that they can be pasted."""
    named = re.findall(r"`((?:whyidle|nvidia-smi|dcgmi) [^`]+)`", how)
    if not named and re.match(r"record |call prof\.|put torch\.", how):
        return (_PRINTS,)
    return tuple(f"{one}{_JOB}" if re.match(r"whyidle run\b(?!.* -- )", one) else one for one in named)


def _count(ways: Iterable[Way]) -> int:
    return sum(len(way.rules) for way in ways)
