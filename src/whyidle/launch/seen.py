"""Why there is nothing to judge: a run that shows no steps is answered in one sentence, never by an empty report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.collect.missed import BLINDING, interpreter_options
from whyidle.launch.pace import Pace
from whyidle.launch.process import Ended
from whyidle.model.record import Record

LEAST = 2  # steps between which there is time to judge


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why nothing can be judged."""

    message: str
    hint: str
    ours: bool = False  # a job that trains was not measured


def nothing(node: Path, pace: Pace, command: Sequence[str], ended: Ended | None = None) -> Nothing | None:
    """Return why there is nothing to judge in a machine's folder; None if there is something.

    Args:
        node: the machine's folder in the run directory.
        pace: that has followed the job to its end.
        command: of the job.
        ended: how it ended, where that is known.
    """
    steps = pace.count(Record.STEP)
    repeated = steps or pace.count(Record.BACKWARD) or pace.count(Record.BATCH)
    if repeated >= LEAST or any(node.glob("trace-*")):
        return None
    if steps:
        then = f" and {_failed(ended)}" if _failed(ended) else ""
        return Nothing(
            f"too short to judge: the job made 1 training step{then}", "let it train some more steps, 30 or more"
        )
    lost = _not_captured(node) or _blind(command)
    if lost is not None:
        return lost
    used_torch = any(node.glob("*.facts.json")) or any(node.glob("*.events"))
    if _failed(ended):
        what = "an optimizer made a step" if used_torch else "it imported torch, as far as whyidle could watch"
        reach = "" if used_torch else "; other containers, and an emptied environment, are out of reach"
        return Nothing(f"nothing to judge: the job {_failed(ended)} before {what}", f"its own output says why{reach}")
    if used_torch:
        return Nothing(
            "nothing to judge: the job imported torch, but no optimizer made a step",
            "whyidle measures training; was this the command that trains, and did it come that far?",
        )
    return Nothing(
        "nothing to judge: no process that whyidle could watch imported torch",
        "is this the command that trains? Other containers, and an emptied environment, are out of reach",
    )


def _failed(ended: Ended | None) -> str:
    """Return how a job failed; empty if it did not."""
    if ended is None or not ended.status:
        return ""
    return f"exited with {ended.exit_code}" if ended.signal is None else f"was ended by signal {ended.signal}"


def _blind(command: Sequence[str]) -> Nothing | None:
    """Return what keeps a command from being watched, where its own words say so."""
    if not Path(command[0]).name.startswith(("python", "pypy")):
        return None
    for option in interpreter_options(command):
        if option in BLINDING:
            return Nothing(f"not captured: {BLINDING[option]}", f"start it without -{option}", ours=True)
    return None


def _not_captured(node: Path) -> Nothing | None:
    """Return what the collector says of processes that could not be watched."""
    try:
        told = json.loads((node / "node.json").read_text("utf-8"))
        first, *others = told["not_captured"]
        what, hint = f"{first['why']} (pid {int(first['pid'])}: {first['command']})", str(first["hint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    more = f", and {len(others)} more" if others else ""
    return Nothing(f"not captured: {what}{more}", hint, ours=True)
