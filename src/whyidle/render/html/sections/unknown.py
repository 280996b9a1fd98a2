"""What was not measured, and how to: unknown is neither healthy nor zero."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whyidle.model.finding import Report
from whyidle.render.caveats import ways
from whyidle.render.html.section import Section, filled

_JOB = " -- python train.py"  # stands for the command of the reader


@dataclass(frozen=True, slots=True)
class Way:
    """How to get evidence, and the rules that wait for it."""

    how: str
    commands: tuple[str, ...]  # to paste
    rules: tuple[str, ...]


def section(report: Report) -> Section | None:
    """Return the rules that could not be asked, by how to get what they lack; None where all could."""
    found = [Way(how, commands(how), rules) for how, rules in ways(report)]
    if not found:
        return None
    return Section("unknown", "Not judged", filled("unknown", ways=found, count=len(report.unknown)))


def commands(how: str) -> tuple[str, ...]:
    """Return the commands that a sentence names in backticks, such that they can be pasted."""
    named = re.findall(r"`((?:whyidle|nvidia-smi|dcgmi) [^`]+)`", how)
    return tuple(f"{one}{_JOB}" if re.match(r"whyidle run\b(?!.* -- )", one) else one for one in named)
