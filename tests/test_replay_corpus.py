"""Replays of real recordings made by others: as they were, with another GPU, and against the same job with its cure."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from scoring.pairs import told
from scoring.replayed import LEAST_STEPS, PAIRS, pair, play, sweep
from tests.conftest import CORPUS, ROOT
from whyidle import replay
from whyidle.measure import measure
from whyidle.read import load

FACTS = json.loads((CORPUS / "FACTS.json").read_text()) if (CORPUS / "FACTS.json").exists() else {}
STEPPED = sorted(name for name, facts in FACTS.items() if facts["steps"] >= LEAST_STEPS and facts["gpu_ops"])
NS_RESOLUTION = "kineto/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
recorded = pytest.mark.skipif(not FACTS, reason="no recordings here: set WHYIDLE_CORPUS to the corpus folder")
played = cache(lambda name: play(CORPUS, name))


@recorded
@pytest.mark.parametrize("name", STEPPED)
def test_each_step_is_replayed_as_it_was(name):
    assert played(name).median <= 1
    assert played(name).spread.p95 <= 3


@recorded
@pytest.mark.parametrize(("which", "percent"), [("control", 0.1), ("test", 5)])
def test_what_a_sync_waits_for_is_found_by_when_streams_were_done(which, percent):
    assert played(f"kineto/trace_diff/{which}/{which}.json.gz").spread.max <= percent


@recorded
def test_a_full_launch_queue_is_seen_in_a_real_recording():
    (analysis,) = measure(load([CORPUS / NS_RESOLUTION])).analyses
    assert replay.launch_queue(analysis) == pytest.approx(1024, rel=0.05)


@recorded
def test_a_job_that_its_gpu_limits_is_twice_as_fast_on_one_that_is():
    job = played(NS_RESOLUTION)
    assert job.base_ms == pytest.approx(95.7, rel=0.02)
    assert job.faster_gpu_ms == pytest.approx(48, rel=0.05)
    assert job.faster_host_ms == pytest.approx(job.base_ms, rel=0.02)


@recorded
def test_a_job_that_its_host_limits_does_not_gain_by_a_faster_gpu():
    jobs = [job for job in map(played, STEPPED) if job.bound_by_the_host and not job.refused]
    assert jobs
    for job in jobs:
        assert job.faster_gpu_ms == pytest.approx(job.base_ms, rel=0.02)


@recorded
def test_workers_do_what_was_predicted_in_the_same_job_with_workers():
    """126.3 ms in the median, where the first step is dropped."""
    found = pair(CORPUS, *PAIRS[0])
    assert found.after_ms == pytest.approx(126.3, abs=0.1)
    assert abs(found.error) <= 0.08
    assert abs(found.error) < abs(found.naive_error)
    assert found.low_ms <= found.after_ms <= found.high_ms


@recorded
def test_what_a_larger_batch_does_is_told_from_large_ones_only():
    by_size = {grown.size: grown for grown in sweep(CORPUS)}
    assert all(by_size[size].why_not for size in (2, 4, 8, 16))
    assert all(abs(by_size[size].error) <= 0.2 for size in (128, 256))


def test_cures_of_watched_jobs_do_what_was_predicted():
    errors = {f"{one.cure.pair}": one.error for one in told(ROOT / "tests" / "runs" / "watched")}
    known = {name: error for name, error in errors.items() if error is not None}
    assert len(known) >= 6, errors
    assert np.abs(list(known.values())).max() <= 0.10, known
