"""What became of a cell's job: by how it ended, what it printed, and how many steps it made."""

from __future__ import annotations

import re
import signal
from typing import Final, Literal, TypeAlias

from whyidle.launch.process import Ended
from whyidle.model.trial import BY_ITSELF, Status
from whyidle.render.words import plural, shorten
from whyidle.sweep.plan import FEWEST_STEPS

# Why we ended it: settled, one of its own limits, or the budget of the sweep.
Reason: TypeAlias = Literal["settled", "time", "steps", "budget"]

OUT_OF_MEMORY: Final = re.compile(
    r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|can't allocate memory|Cannot allocate memory|^MemoryError\b|out of shared memory"
    r"|killed by signal: Killed|Signal 9 \(SIGKILL\)|exitcode\s*: -9\b",
    re.MULTILINE,
)
KILLED: Final = 128 + signal.SIGKILL  # as a shell in between reports it
LONGEST: Final = 200  # characters of what is quoted
_OURS: Final = ("whyidle: ", "hint: ")
_RAISED: Final = re.compile(r"^(?:\[rank\d+\]: ?)?[\w.]*(?:Error|Exception|Exit|Interrupt)\b")


def by_itself(ended: Ended, tail: str, steps: int) -> tuple[Status, str]:
    """Return what became of a job that ended by itself, and why.

    Args:
        ended: how.
        tail: the end of what it printed.
        steps: that it made, after the warm-up.
    """
    if ended.status and OUT_OF_MEMORY.search(tail):
        said = next((line for line in reversed(_lines(tail)) if OUT_OF_MEMORY.search(line)), "")
        return "out of memory", shorten(said, LONGEST)
    if ended.signal == signal.SIGKILL or ended.exit_code == KILLED:
        return "out of memory", "killed by signal 9, as Linux does when memory runs out"
    if ended.status:
        how = f"exit code {ended.exit_code}" if ended.signal is None else f"ended by signal {ended.signal}"
        said = last_words(tail)
        return "failed", shorten(f"{how}: {said}" if said else how, LONGEST)
    if steps < FEWEST_STEPS:
        return (
            "no steps",
            f"it ended after {plural(steps, 'step')} that count" if steps else "no training step was seen",
        )
    return "ok", BY_ITSELF


def by_us(reason: Reason, steps: int, limit: str) -> tuple[Status, str]:
    """Return what became of a job that we ended, and why; `limit` is what it had reached, in words."""
    if steps >= FEWEST_STEPS:
        return "ok", limit
    if reason == "budget":
        return "interrupted", limit
    return "timed out", f"{plural(steps, 'step') if steps else 'no step'} in {limit}"


def last_words(text: str) -> str:
    """Return the line that tells best why a job failed: the last exception, else the last line that is not ours."""
    lines = _lines(text)
    raised = next((line for line in reversed(lines) if _RAISED.match(line)), "")
    return raised or (lines[-1] if lines else "")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_OURS)]
