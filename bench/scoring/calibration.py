"""Does a confidence of 0.8 mean right in 8 of 10? Over all findings at medium or above, claims and suggestions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scoring.rates import Rate
from scoring.records import Outcome

EDGES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Bin:
    """Findings whose confidence lies in [low, high), the last with 1.0, and how many name an injected cause."""

    low: float
    high: float
    said: float | None  # mean confidence
    right: Rate
    right_strict: Rate


def calibrate(outcomes: Iterable[Outcome]) -> tuple[Bin, ...]:
    bins: list[list[tuple[float, bool, bool]]] = [[] for _ in EDGES[1:]]
    for outcome in outcomes:
        for finding in outcome.findings:
            if finding.grave:
                accepted, strict = (outcome.is_right(finding, strict=strict) for strict in (False, True))
                bins[_bin(finding.confidence)].append((finding.confidence, accepted, strict))
    return tuple(_row(low, high, rows) for low, high, rows in zip(EDGES, EDGES[1:], bins, strict=False))


def _bin(confidence: float) -> int:
    return max(i for i, low in enumerate(EDGES[:-1]) if round(confidence, 6) >= low)


def _row(low: float, high: float, rows: list[tuple[float, bool, bool]]) -> Bin:
    said = sum(row[0] for row in rows) / len(rows) if rows else None
    return Bin(low, high, said, Rate.among([row[1] for row in rows]), Rate.among([row[2] for row in rows]))
