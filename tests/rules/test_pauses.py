"""What to do about checkpoints and evaluations, where it depends on how often they come and what there is room for."""

from __future__ import annotations

import pytest

from whyidle.model.evidence import Value
from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import ask


def only(**measured: Value) -> Finding:
    (finding,) = ask(Measurements(Measurement(name, value) for name, value in measured.items()))[0]
    return finding


def test_a_save_at_every_step_has_nothing_to_be_written_beside() -> None:
    found = only(lost_save_share=0.2, saves=100, watched_s=100.0, watched_steps=100)
    assert [fix.title for fix in found.fixes] == ["save half as often"]
    assert "async_save" not in found.fixes[0].change


@pytest.mark.parametrize(("lost", "first", "hidden"), [(0.1, "write", 0.9), (0.4, "save", 0.9), (0.8, "save", 0.25)])
def test_the_background_hides_no_more_than_the_time_between_saves(lost: float, first: str, hidden: float) -> None:
    found = only(lost_save_share=lost, saves=10, watched_s=100.0, watched_steps=1000)
    assert found.fixes[0].title.startswith(first)
    (beside,) = (fix for fix in found.fixes if "async_save" in fix.change)
    assert 1 - beside.edits[0].coefficients["factor"] == pytest.approx(hidden)


def test_saves_that_take_most_of_the_time_come_so_much_less_often_that_they_take_little() -> None:
    fix = only(lost_save_share=0.5, saves=100, watched_s=100.0, watched_steps=1000).fixes[0]
    assert fix.change == "save_every = 20 * save_every"
    assert only(lost_save_share=1.0).fixes[0].change == "save_every = 100 * save_every"


EVALUATES: dict[str, Value] = {
    "lost_evaluation_share": 0.2, "evaluation_data_share": 0.18, "evaluation_batch_seconds": 0.05,
    "evaluation_workers": 0, "evaluations": 10, "on_gpu": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "workers"),
    [
        ({}, 4),
        ({"cpus_allowed": 2}, 1),
        ({"cpus_allowed": 64, "ranks_on_machine": 32}, 1),
        ({"cpus_allowed": 1}, None),
        ({"cpus_allowed": 2, "cpus_online": 2, "cpus_taken": 1.6}, None),
        ({"evaluation_batch_seconds": 0.001}, None),
        ({"evaluation_workers": 2}, None),
    ],
)
def test_an_evaluation_gets_workers_where_there_is_room_and_use_for_them(
    change: dict[str, Value], workers: int | None
) -> None:
    fixes = only(**EVALUATES | change).fixes
    told = [fix.change for fix in fixes if "num_workers" in fix.change]
    if workers is None:
        assert not told
    else:
        assert f"num_workers={workers}, persistent_workers=True" in told[0]
        assert "pin_memory" not in told[0]
        assert "num_workers" in fixes[0].change, "most of the pause is waiting for batches"


def test_an_evaluation_keeps_its_metric_and_its_batches() -> None:
    for fix in only(**EVALUATES).fixes:
        assert "accuracy" not in fix.change
        assert "batch_size" not in fix.change
        assert (fix.effort == "code") == ("for x, y" in fix.change)


def test_what_is_written_in_the_background_already_is_not_told_to_be() -> None:
    found = only(lost_save_share=0.1, saves=10, watched_s=100.0, watched_steps=1000, saves_in_background=True)
    assert not any("async_save" in fix.change for fix in found.fixes)
    assert "in the background already" in found.seen


@pytest.mark.parametrize(
    ("again", "left"),
    [(0.86, {"compile": 0.0}), (0.43, {"compile": 0.0, "allocator": 0.5}), (0.0, {"compile": 0.0, "allocator": 0.0})],
)
def test_a_warm_up_leaves_what_is_allocated_in_every_step(again: float, left: dict[str, float]) -> None:
    measured = {"idle_compile_share": 0.05, "idle_allocator_share": 0.86, "alloc_lost_share": again}
    findings = ask(Measurements(Measurement(name, value) for name, value in measured.items()))[0]
    (found,) = (finding for finding in findings if finding.rule == "pause.startup")
    edits = {edit.selector["cause"]: edit.coefficients["factor"] for edit in found.fixes[0].edits}
    assert edits == pytest.approx(left)
