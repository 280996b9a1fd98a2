"""What of a watched job is evaluation, and what is training."""

from __future__ import annotations

import pytest

from tests import recorded
from tests.recorded import Process


def test_an_evaluation_is_told_from_training(measured):
    process = Process()
    for _ in range(3):
        process.iterate(20)
        process.train(10)
        process.batch(1, end=True)
        process.evaluate(5)
        process.batch(1, loader=1, end=True)
    values, _ = measured(process)
    assert values["evaluations"] == 2
    assert values["epochs"] == 2
    evaluation = 2 * (5 * 17 + 1) / 1e3
    assert values["host_evaluation_share"] * values["watched_s"] == pytest.approx(evaluation, rel=0.02)
    # without a GPU the loss of an evaluation is what it does beside its forward passes
    assert values["lost_evaluation_share"] * values["watched_s"] == pytest.approx(evaluation - 0.1, rel=0.05)
    assert values["host_data_share"] * values["watched_s"] == pytest.approx(0.29 + 0.002, rel=0.01)


def test_the_loader_of_evaluations(measured):
    process = Process().setting("device", "cpu")
    process.loaders += [
        {"loader": 0, "where": "train.py:10", "num_workers": 2},
        {"loader": 1, "where": "train.py:20", "num_workers": 0},
    ]
    for _ in range(3):
        process.train(10)
        process.evaluate(5, data=8)
    values, found = measured(process)
    assert values["evaluation_workers"] == 0
    assert values["evaluation_batch_seconds"] == pytest.approx(0.008)
    assert values["evaluation_data_share"] * values["watched_s"] == pytest.approx(0.08, rel=0.02)
    (place,) = found.measurements.one("lost_evaluation_share").locations
    assert (place.file, place.line) == ("train.py", 20)


def test_a_teacher_is_part_of_the_step(measured):
    process = Process()
    for _ in range(8):
        process.batch(5)
        process.forward(7, module=1, flags=0)
        process.forward(10)
        process.backward(10)
        process.step(2)
    values, _ = measured(process)
    assert values["host_evaluation_share"] == 0
    assert values["host_forward_share"] == pytest.approx(0.5)


def test_a_teacher_with_a_loader_of_its_own_is_part_of_the_step(measured):
    process = Process()
    for _ in range(2):
        for _ in range(20):
            process.batch(20, loader=1)
            process.forward(10, module=1, flags=0)
            process.batch(5)
            process.forward(20)
            process.backward(30)
            process.step(5)
        process.batch(0, loader=1, end=True)
    values, _ = measured(process)
    assert values["evaluations"] == 0
    assert values["host_evaluation_share"] == 0
    assert values["lost_data_zero_share"] == pytest.approx(25 / 90, rel=0.02)


def test_an_evaluation_whose_forward_passes_were_not_seen(measured):
    """So it is with model.module(x) where only calls of model are watched."""
    process = Process()
    for _ in range(4):
        process.train(20)
        for _ in range(10):
            process.batch(20, loader=1)
            process.wait(30)
        process.batch(0, loader=1, end=True)
    values, _ = measured(process)
    whole = values["watched_s"]
    assert values["evaluations"] == 3
    assert values["host_evaluation_share"] == pytest.approx(3 * 0.5 / whole, rel=0.01)
    assert values["lost_evaluation_share"] == pytest.approx(3 * 0.2 / whole, rel=0.01)
    assert values["lost_data_zero_share"] == pytest.approx(79 * 0.01 / whole, rel=0.02)


def test_two_batches_of_a_step_are_both_training(measured):
    process = Process()
    for _ in range(20):
        process.batch(20, loader=1)
        process.train(1)
    values, _ = measured(process)
    assert values["evaluations"] == 0
    assert values["lost_data_zero_share"] == pytest.approx(30 / 90, rel=0.02)


def test_batches_of_a_step_that_are_fetched_at_once_are_training(measured):
    process = Process()
    for _ in range(20):
        for _ in range(4):
            process.batch(10)
        for _ in range(4):
            process.forward(20)
            process.backward(30)
        process.step(5)
    values, _ = measured(process)
    assert values["evaluations"] == 0
    assert values["loader_batches_per_step"] == pytest.approx(4, rel=0.05)


def test_an_evaluation_after_every_step_is_one(measured):
    process = Process()
    for _ in range(20):
        process.iterate(1, loader=0)
        process.train(1, other=0)
        process.batch(0, end=True)
        process.iterate(1, loader=1)
        process.evaluate(3)
        process.batch(0, loader=1, end=True)
    values, _ = measured(process)
    assert values["evaluations"] == 19
    assert values["host_evaluation_share"] > 0.3


def test_batches_that_are_fetched_ahead_go_with_their_loader(measured):
    process = Process()
    for _ in range(3):
        process.batch(5)
        for last in (False, False, False, True):
            process.batch(5, end=last)
            process.forward(10)
            process.backward(10)
            process.step(2)
        process.batch(5, loader=1)
        for last in (False, False, True):
            process.batch(5, loader=1, end=last)
            process.forward(10, flags=0)
    values, _ = measured(process)
    assert values["host_data_share"] * values["watched_s"] == pytest.approx((3 + 5 + 5) * 0.005)
    assert values["host_evaluation_share"] * values["watched_s"] == pytest.approx(2 * (4 * 5 + 30) / 1e3)


def test_evaluation_without_batches(measured):
    process = Process()
    for _ in range(3):
        for _ in range(10):
            process.forward(10)
            process.backward(10)
            process.step(2)
        for _ in range(4):
            process.forward(10, flags=0)
    assert measured(process)[0]["evaluations"] == 2


def test_acting_in_an_environment_is_no_evaluation(measured):
    process = Process()
    for _ in range(4):
        for _ in range(6):
            process.forward(2, flags=0)
            process.put(recorded.ENVIRONMENT, 8, 1)
        for _ in range(3):
            process.forward(10)
            process.backward(10)
            process.step(5)
    values, _ = measured(process)
    assert values["host_evaluation_share"] == 0
    assert values["host_environment_share"] * values["watched_s"] == pytest.approx(3 * 6 * 8 / 1e3)


def test_a_range_that_is_named_for_evaluation(measured):
    process = Process().train(5)
    with process.around(recorded.RANGE, flags=1):
        process.train(1)
    process.train(5)
    values, _ = measured(process)
    assert values["host_evaluation_share"] * values["watched_s"] == pytest.approx(0.07, rel=0.01)
