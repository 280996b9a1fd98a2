"""What holds in the simulated world, whatever the job."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import world
from world import truth
from world.calibrate import calibrate
from world.job import Data, Every, Job
from world.nets import Work
from world.process import COLLECTIVES, Process
from world.simulation import Run, run

FEW = settings(max_examples=20, deadline=None)


def jobs() -> st.SearchStrategy[Job]:
    return st.builds(
        Job,
        family=st.sampled_from(sorted(world.FAMILIES)),
        gpu_name=st.sampled_from(sorted(world.GPUS)),
        ranks=st.sampled_from((1, 1, 2, 3)),
        seed=st.integers(0, 99),
        steps=st.integers(2, 4),
        warmup=st.integers(0, 2),
        work=st.builds(Work, compiled=st.booleans(), batch_scale=st.sampled_from((0.1, 1.0))),
        data=st.builds(Data, workers=st.sampled_from((0, 1, 4)), batch_us=st.sampled_from((500.0, 30_000.0))),
        copy=st.sampled_from(("pageable", "blocking", "pinned", "stream")),
        reads=st.sampled_from((0, 2)),
        reads_by=st.sampled_from(("", "scalar", "mask", "clip", "log", "framework")),
        deferred_reads=st.integers(0, 2),
        graphed=st.booleans(),
        queue=st.sampled_from((16, 1024)),
        gc=st.sampled_from((Every(), Every(2, 5000.0))),
        churn=st.sampled_from((Every(), Every(2, 3000.0, 2))),
        evaluation=st.sampled_from((Every(), Every(2, 3000.0, 2))),
        slow_rank=st.sampled_from((-1, 0)),
        slow_gpu=st.just(1.5),
        gil=st.sampled_from(((0.0, 0.0), (5000.0, 900.0))),
    )


def by_stream(process: Process) -> dict[int, list[tuple[float, float]]]:
    lines: dict[int, list[tuple[float, float]]] = {}
    for work in process.work:
        lines.setdefault(work.stream, []).append((work.start, work.end))
    return lines


@FEW
@given(jobs())
def test_busy_and_idle_are_the_window_and_idle_has_causes(job: Job) -> None:
    for process in run(job).ranks:
        account = truth.account(process)
        window = account.end - account.start
        assert account.busy + sum(account.idle.values()) == pytest.approx(window, rel=1e-6)
        assert min(account.idle.values()) >= -1e-6


@FEW
@given(jobs())
def test_a_stream_runs_one_operation_after_the_other(job: Job) -> None:
    for process in run(job).ranks:
        for spans in by_stream(process).values():
            assert all(start < end for start, end in spans)
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@FEW
@given(jobs())
def test_nothing_runs_before_it_is_launched_and_time_goes_forward(job: Job) -> None:
    for process in run(job).ranks:
        assert all(work.call < work.start for work in process.work)
        times = [time for time, _ in process.causes]
        assert times == sorted(times)


@FEW
@given(jobs())
def test_a_stream_holds_no_more_launches_than_its_queue(job: Job) -> None:
    """At each launch, of a stream's operations at most `queue` and the one just launched have not ended."""
    if job.graphed:
        return  # a graph is one launch of many kernels
    for process in run(job).ranks:
        for stream in process.streams.values():
            calls = [work.call for work in process.work if work.stream == stream.number]
            late = zip(calls[job.queue + 1 :], stream.ends, strict=False)
            assert all(end <= call + 1e-6 for call, end in late)


@FEW
@given(jobs())
def test_collectives_end_on_all_ranks_at_once_and_begin_when_each_is_ready(job: Job) -> None:
    ranks = run(replace(job, ranks=3)).ranks
    ends = [[work.end for work in p.work if work.stream == COLLECTIVES] for p in ranks]
    assert ends[0]
    assert ends[0] == ends[1] == ends[2]
    starts = [[work.start for work in p.work if work.stream == COLLECTIVES] for p in ranks]
    for begun, end in zip(zip(*starts, strict=True), ends[0], strict=True):
        assert max(begun) < end


@FEW
@given(jobs())
def test_the_same_seed_gives_the_same_run(job: Job) -> None:
    first, second = run(job), run(job)
    assert [p.work for p in first.ranks] == [p.work for p in second.ranks]
    assert first.step_us == second.step_us


@pytest.mark.parametrize("name", sorted(world.FAULTS))
def test_a_fault_of_no_severity_is_the_healthy_job(name: str) -> None:
    fault = world.FAULTS[name]
    job = world.healthy(fault.families[0], ranks=fault.min_ranks, steps=4)
    found = calibrate(job, {fault: 0.0})
    assert step(found.with_all()) == step(found.without(frozenset({name}))) == pytest.approx(step(job), rel=2e-3)


def simulated(name: str, severity: float) -> dict[str, Any]:
    """Simulate a fault in the last of its families that can have it at this severity."""
    fault = world.FAULTS[name]
    for family in reversed(fault.families):
        try:
            return world.simulate(family, {name: severity}, ranks=fault.min_ranks, seed=1)
        except world.UnreachableError:
            continue
    raise AssertionError(f"{name} is out of reach in every family")


@pytest.mark.parametrize("name", sorted(world.FAULTS))
def test_a_fault_costs_what_was_asked(name: str) -> None:
    known = simulated(name, 0.1)
    (one,) = known["faults"]
    assert one["id"] == name
    assert one["severity"] == pytest.approx(0.1, abs=0.01)
    assert one["severity"] == pytest.approx(1 - one["step_time_without_s"] / known["step_time_s"])


def test_two_faults_are_each_worth_what_was_asked_in_presence_of_the_other() -> None:
    known = world.simulate("resnet", {"input.workers_zero": 0.1, "compute.channels_last": 0.2}, seed=2)
    assert known["calibrated"] == "together"
    assert [one["severity"] for one in known["faults"]] == [pytest.approx(0.1, abs=0.01), pytest.approx(0.2, abs=0.01)]
    assert known["step_time_without_all_s"] < min(one["step_time_without_s"] for one in known["faults"])


def test_two_faults_that_hide_each_other_are_each_worth_what_was_asked_alone() -> None:
    known = world.simulate("resnet", {"input.workers_zero": 0.1, "compute.channels_last": 0.2}, seed=1)
    assert known["calibrated"] == "alone"
    assert known["step_time_without_all_s"] < 0.9 * known["step_time_s"]


def test_what_else_a_job_would_gain_by_is_known_from_running_it_without() -> None:
    known = world.simulate("cnn", {"input.workers_zero": 0.2}, seed=2)  # it also reads its loss in each step
    (read,) = [other for other in known["also"] if other["id"] == "sync.scalar_read"]
    assert read["severity"] == pytest.approx(1 - read["step_time_without_s"] / known["step_time_s"])
    assert read["severity"] > 0.1


def test_at_least_25_faults_have_ids_of_the_taxonomy() -> None:
    assert len(world.FAULTS) >= 25
    families = {"input", "transfer", "sync", "host", "compile", "compute", "memory", "pause", "dist", "hw"}
    assert {name.partition(".")[0] for name in world.FAULTS} == families


def test_the_world_imports_nothing_of_whyidle_nor_the_other_way_round() -> None:
    root = Path(__file__).parents[2]
    assert "whyidle" not in imports(root / "world")
    assert "world" not in imports(root / "src")


def imports(folder: Path) -> set[str]:
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found


def step(job: Job) -> float:
    done: Run = run(job)
    return done.step_us
