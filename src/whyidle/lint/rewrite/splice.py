"""Code in the place of other code: all that any repair comes down to, so that the rest stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Splice:
    """Puts code in the place of the characters from `start` to before `end`; where both are equal, between them."""

    start: int
    end: int
    code: str

    def meets(self, other: Splice) -> bool:
        """Say whether one of the two would change what the other one is about."""
        return self.start == other.start or (self.start < other.end and other.start < self.end)


def narrowed(start: int, before: str, after: str) -> Splice:
    """Return the splice that makes `before`, which begins at `start`, into `after`, and touches as little as it can."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    tail = 0
    while tail < min(len(before), len(after)) - same and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return Splice(start + same, start + len(before) - tail, after[same : len(after) - tail])


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """Return a text after splices that do not meet; those at the same place come in their order."""
    parts: list[str] = []
    done = 0
    for splice in sorted(splices, key=lambda splice: splice.start):
        parts += [text[done : splice.start], splice.code]
        done = splice.end
    return "".join([*parts, text[done:]])


def free(new: Sequence[Splice], taken: Iterable[Splice]) -> bool:
    """Say whether splices can be made beside others: they are the same ones, or touch nothing that those touch."""
    return not any(one != other and one.meets(other) for one in new for other in taken)
