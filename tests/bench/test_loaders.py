"""Simulated loaders whose pace can be worked out by hand, and the board that searches are held against."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import loaders
import sweep as board
from loaders import KINDS, Job, drawn, ran

EVEN = Job("cpu", 0, cpus=16, host=0.01, gpu=0.04, computes=0.2, handover=0.0)


@pytest.mark.parametrize(("workers", "step"), [(0, 0.25), (1, 0.2), (2, 0.1), (4, 0.05), (8, 0.05)])
def test_even_batches_are_shared_out(workers, step) -> None:
    assert ran(EVEN, workers, 200).step == pytest.approx(step, rel=0.01)


def test_what_is_measured_of_it() -> None:
    one = ran(EVEN, 2, 200)
    assert one.wait == pytest.approx(0.5, abs=0.01)
    assert (one.fetch, one.fetch_cpu, one.fetch_cv) == pytest.approx((0.2, 0.2, 0.0), abs=1e-3)
    assert one.blocked == pytest.approx(0.0, abs=1e-6)
    assert one.cpu_busy == pytest.approx((2 + 0.1) / 16, rel=0.02)


def test_cpus_end() -> None:
    assert ran(replace(EVEN, cpus=2), 8, 200).step == pytest.approx(0.21 / 2, rel=0.02)


def test_storage_ends() -> None:
    reads = replace(EVEN, computes=0.0001, reads=0.2, streams=2.0)
    assert [ran(reads, workers, 200).step for workers in (1, 2, 8)] == pytest.approx([0.2, 0.1, 0.1], rel=0.02)
    assert ran(reads, 8, 200).blocked > 0.99


def test_latency_does_not() -> None:
    assert ran(replace(EVEN, cpus=1, computes=0.0001, delays=0.2), 4, 200).step == pytest.approx(0.05, rel=0.02)


def test_unequal_batches_hold_up_those_behind() -> None:
    # just enough workers in the mean: docs/method.md has 16% of wait at a spread of 0.5
    unequal = ran(replace(EVEN, cv=0.5), 4, 4000)
    assert unequal.wait == pytest.approx(0.156, abs=0.03)


def test_draws_are_the_same_again_and_of_every_kind() -> None:
    assert drawn("latency", 3) == drawn("latency", 3) != drawn("latency", 4)
    assert {drawn(kind, 0).kind for kind in KINDS} == set(KINDS)


def test_it_knows_nothing_of_what_it_judges() -> None:
    tree = ast.parse(Path(loaders.__file__).read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in names if name.startswith("whyidle")]


def test_a_job_is_scored_beside_its_grid() -> None:
    told = replace(EVEN, cpus=6, computes=0.12, seed=1)  # of seed 0 nobody tells how long a worker takes for a batch
    scores = {score.who: score for score in board.of_job(told)}
    ours = scores["whyidle"]
    assert (ours.fewest, ours.chosen) == (3, 3)
    assert ours.ratio == pytest.approx(1.0, abs=0.02)
    assert ours.probes <= board.PROBES
    assert scores["all CPUs"].chosen == 6
    assert "whyidle" in board.table(list(scores.values()))


def test_a_grid_ends_with_the_cpus() -> None:
    assert board.grid(3) == [0, 1, 2, 3]
    assert board.grid(64)[-1] == 64


def test_batch_sizes_are_scored_beside_theirs() -> None:
    ours, largest = board.of_batch(1000)
    assert ours.ratio >= board.GOOD
    assert largest.who == "largest that fits"
