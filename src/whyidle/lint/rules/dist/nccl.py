"""What a program tells NCCL through the environment, whatever machine it runs on."""

from __future__ import annotations

from whyidle.lint.enclosing import around
from whyidle.lint.events import Set
from whyidle.lint.job import Job
from whyidle.lint.repair import Remove, Repair
from whyidle.lint.rules.reached import condition


def told(event: Set, job: Job) -> tuple[str, str]:
    """Return the variable that is always set and its value in capitals; empty where none is, or no GPU is used."""
    name = event.name.removeprefix("os.environ.")
    known = name.startswith("NCCL_") and event.value.known
    if not known or job.gpu == "no" or condition(around(event.source, event.node)):
        return "", ""
    return name, str(event.value.constant).upper()


def untold(event: Set, note: str) -> Repair:
    """Return the repair that takes the setting away."""
    return Repair((Remove(event.statement),), safe=False, note=note)
