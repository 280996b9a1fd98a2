"""Where a watched job spends time in code of its loop of which nothing is recorded."""

from __future__ import annotations

import pytest

from tests import recorded
from tests.recorded import Process


def test_a_metric_after_an_evaluation_is_part_of_it(measured):
    process = Process()
    for _ in range(4):
        process.train(20)
        process.evaluate(5)
        process.batch(0, loader=1, end=True)
        process.wait(300)
        process.save(10)
    values, _ = measured(process)
    whole = values["watched_s"]
    assert values["host_evaluation_share"] == pytest.approx(3 * (5 * 0.017 + 0.3) / whole, rel=0.01)
    assert values["lost_evaluation_share"] == pytest.approx(3 * (5 * 0.007 + 0.3) / whole, rel=0.01)
    assert values["lost_save_share"] == pytest.approx(3 * 0.01 / whole, rel=0.01)
    assert values["host_gaps_share"] == pytest.approx(79 * 0.005 / whole, rel=0.02)


def test_a_metric_after_an_evaluation_on_the_data_of_training_is_part_of_it(measured):
    process = Process()
    for _ in range(4):
        process.train(20)
        process.batch(0, end=True)
        process.evaluate(20, loader=0)
        process.batch(0, end=True)
        process.wait(300)
    values, _ = measured(process)
    whole = values["watched_s"]
    assert values["host_evaluation_share"] == pytest.approx(3 * (20 * 0.017 + 0.3) / whole, rel=0.01)
    assert values["host_gaps_share"] == pytest.approx(79 * 0.005 / whole, rel=0.02)


@pytest.mark.parametrize(
    ("waits", "place", "share"),
    [
        ({"other": 54}, "between Optimizer.step and the next batch", 54 / 120),
        ({"prepare": 51}, "between a batch and the forward pass", 51 / 120),
        ({"prepare": 1, "other": 4}, "between Optimizer.step and the next batch", 4 / 70),
    ],
)
def test_where_a_loop_computes_by_itself(measured, waits, place, share):
    process = Process().train(21, **waits).setting("optimizer_site", "train.py:40")
    values, _ = measured(process)
    assert values["host_gap"] == place
    assert values["host_gap_share"] == pytest.approx(share)
    assert values["host_gaps_share"] == pytest.approx(share + (0 if place.endswith("batch") else 4) / 120, abs=0.02)


def test_the_line_behind_which_a_loop_computes(measured):
    process = Process().train(21, other=40).setting("optimizer_site", "sub/train.py:40")
    _, found = measured(process)
    (place,) = next(m.locations for m in found.measurements if m.name == "host_gap_share")
    assert (place.file, place.line) == ("sub/train.py", 40)


def test_code_of_a_closure_is_the_loops(measured):
    process = Process()
    for _ in range(6):
        process.batch(10)
        with process.around(recorded.STEP):
            process.wait(40)
            process.forward(20)
            process.backward(30)
            process.wait(8)
    values, _ = measured(process)
    assert values["host_gap"] == "between a batch and the forward pass"
    assert values["host_gap_share"] == pytest.approx(40 / 108)


def test_work_of_a_model_that_is_no_module_is_not_the_loops(measured):
    process = Process()
    for _ in range(6):
        process.batch(10)
        process.wait(40)  # it runs here
        process.backward(30)
        process.step(5)
        process.wait(15)
    values, _ = measured(process)
    assert values["host_gap"] == "between Optimizer.step and the next batch"
    assert values["host_gap_share"] == pytest.approx(0.15)
    assert values["host_gaps_share"] == pytest.approx(0.55)


def test_what_is_taken_for_a_wait_for_data_is_not_said_twice(measured):
    process = Process()
    for _ in range(20):
        process.wait(40)
        process.forward(20)
        process.wait(10)
        process.backward(25)
        process.step(5)
    values, _ = measured(process)
    assert values["lost_data_other_share"] == pytest.approx(0.4)
    assert values["host_gap"] == "between the forward pass and the backward pass"
    assert values["host_gaps_share"] == pytest.approx(0.1)


def test_ranks_wait_for_the_one_whose_loop_computes(measured):
    busy = Process(0, 10, world_size=2).train(20, data=2, other=40)
    waits = Process(1, 11, world_size=2).train(20, data=6, backward=62)
    values, _ = measured(busy, waits)
    assert values["host_gap_share"] == pytest.approx(40 / 98)
