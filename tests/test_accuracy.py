"""A gate on accuracy: one simulated job for each fault, healthy ones and controls, judged and held to their truth.

A change of a measure or a rule that makes verdicts worse fails here. The whole scoreboard is bench/score.py; its
figures are in bench/README.md. The gate stands below what was reached, so that a different job is no failure.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import whyidle
import world
from scoring import Board, judge_one, score

SEVERITY = 0.2
# What must not be fallen below; what is reached stands in bench/README.md.
TOP1, FOUND, POINTS = 0.85, 0.85, 2.0


def jobs() -> list[dict[str, Any]]:
    """Return what to simulate: each fault, all families without one, each control."""
    asked: list[dict[str, Any]] = []
    for row, fault in enumerate(world.FAULTS.values()):
        asked.append({"faults": {fault.id: SEVERITY}, "ranks": fault.min_ranks, "seed": row})
    asked += [{"family": family, "seed": row} for row, family in enumerate(world.FAMILIES)]
    for row, control in enumerate(world.CONTROLS.values()):
        asked.append({"family": "gpt", "control": control.name, "ranks": control.min_ranks, "seed": row})
    return asked


def simulate(asked: dict[str, Any], out: Path) -> dict[str, Any]:
    """Simulate a job; of a fault, in the first of its families, from one that the seed chooses, that can have it."""
    if "family" in asked:
        return world.simulate(**asked, steps=8, out=out)
    (fault,) = asked["faults"]
    families = world.FAULTS[fault].families
    first = asked["seed"] % len(families)
    for family in (*families[first:], *families[:first]):
        try:
            return world.simulate(family, **asked, steps=8, out=out)
        except world.UnreachableError:
            continue
    raise AssertionError(f"{fault} is out of reach in every family")


@cache
def board() -> Board:
    outcomes = []
    for asked in jobs():
        with TemporaryDirectory() as folder:
            truth = simulate(asked, Path(folder) / "run")
            for fault in truth["faults"]:
                assert abs(fault["severity"] - fault["asked"]) <= 0.01, truth
            outcomes.append(judge_one(truth, whyidle.diagnose(Path(folder) / "run")))
    return score(outcomes)


def test_the_first_finding_is_the_cause() -> None:
    top = board().order.main.top1_accepted
    assert top.ratio is not None
    assert top.ratio >= TOP1, board().missed


def test_causes_are_claimed_where_they_are_and_only_there() -> None:
    assert board().all_causes.accepted.f1 is not None
    assert board().all_causes.accepted.f1 >= FOUND, (board().missed, board().false_claims)


def test_idle_time_has_its_true_cause() -> None:
    points = board().attribution.points
    assert points.p95 is not None
    assert points.p95 <= POINTS, board().attribution


@pytest.mark.parametrize("kind", ["healthy", "control"])
def test_nothing_is_found_where_nothing_is_wrong(kind: str) -> None:
    (alarms,) = [alarms for alarms in board().alarms if alarms.kind == kind]
    assert alarms.high.hits == 0, alarms.listed
    assert alarms.claim.hits == 0, alarms.listed
