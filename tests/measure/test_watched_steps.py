"""What a step of a watched job is, and which steps do not count."""

from __future__ import annotations

import pytest

from tests import recorded
from tests.recorded import Process, run_directory, shares
from whyidle.measure import measure
from whyidle.read import load


def test_a_plain_loop(measured):
    values, found = measured(Process().train(11))
    assert found.steps_from == "Optimizer.step"
    assert values["watched_steps"] == 10
    assert values["step_time_s"] == pytest.approx(0.07)
    assert values["watched_s"] == pytest.approx(0.7)
    assert shares(values, "data", "prepare", "forward", "backward", "optimizer", "other") == [
        round(took / 70, 3) for took in (10, 1, 20, 30, 5, 4)
    ]
    assert values["on_gpu"] is False
    assert values["samples_per_s"] == pytest.approx(32 / 0.07)
    assert "tokens_per_s" not in values
    assert values["startup_s"] == pytest.approx(3 + 0.066)


def test_how_long_a_job_took_to_start_is_that_of_its_first_process(measured):
    later = recorded.BEGAN + 60_000 * recorded.MS
    values, _ = measured(Process(0, 10, restart=0).train(20), Process(0, 20, restart=1, began=later).train(20))
    assert "startup_s" not in values


def test_accumulation_steps_as_often_as_the_optimizer(measured):
    process = Process()
    for _ in range(5):
        for _ in range(4):
            process.batch(10)
            process.forward(10)
            process.backward(10)
        process.step(10)
    values, _ = measured(process)
    assert values["watched_steps"] == 4
    assert values["step_time_s"] == pytest.approx(0.13)


@pytest.mark.parametrize(("discriminator", "steps"), [(1, 9), (2, 19)])
def test_a_gan_steps_as_often_as_the_more_frequent_optimizer(measured, discriminator, steps):
    process = Process()
    for _ in range(10):
        for _ in range(discriminator):
            process.batch(5)
            process.forward(3, flags=1)  # the generator, without gradients
            process.forward(5, module=1)
            process.backward(5)
            process.step(2, optimizer=0)
        process.forward(5)
        process.backward(5)
        process.step(2, optimizer=1)
    values, _ = measured(process)
    assert values["watched_steps"] == steps
    assert values["host_evaluation_share"] == 0


def test_optimizers_that_take_turns_are_one(measured):
    process = Process()
    for fold in range(3):
        for _ in range(5):
            process.batch(5)
            process.forward(5)
            process.backward(5)
            process.step(5, optimizer=fold)
    assert measured(process)[0]["watched_steps"] == 14


def test_an_optimizer_in_the_backward_pass(measured):
    process = Process()
    for _ in range(6):
        process.batch(10)
        process.forward(10)
        with process.around(recorded.BACKWARD):
            for optimizer in range(4):
                process.wait(4)
                process.step(1, optimizer)
    values, found = measured(process)
    assert found.steps_from == "backward"
    assert values["watched_steps"] == 5
    assert shares(values, "backward", "optimizer") == [0.4, 0.1]


def test_a_closure_inside_the_step(measured):
    process = Process()
    for _ in range(6):
        process.batch(10)
        with process.around(recorded.STEP):
            process.wait(2)
            process.forward(20)
            process.backward(30)
            process.wait(8)
    values, found = measured(process)
    assert found.steps_from == "Optimizer.step"
    assert values["watched_steps"] == 5
    assert shares(values, "data", "forward", "backward", "optimizer") == [
        round(took / 70, 3) for took in (10, 20, 30, 10)
    ]


def test_steps_that_a_gradient_scaler_skips_are_steps(measured):
    process = Process()
    for number in range(10):
        process.batch(10)
        process.forward(10)
        process.backward(10)
        if number % 3:
            process.step(5)
        process.put(recorded.SCALE, 1, flags=0 if number % 3 else 1)
    values, _ = measured(process)
    assert values["watched_steps"] == 9


@pytest.mark.parametrize(
    ("kinds", "source"),
    [
        ((recorded.BATCH, recorded.FORWARD, recorded.BACKWARD), "backward"),
        ((recorded.BATCH, recorded.FORWARD), "DataLoader"),
        ((recorded.FORWARD,), "forward"),
    ],
)
def test_what_stands_in_for_an_optimizer(measured, kinds, source):
    process = Process()
    for _ in range(6):
        for kind in kinds:
            process.put(kind, 10, 32 << 32 if kind == recorded.BATCH else 0)
        process.wait(10)
    values, found = measured(process)
    assert found.steps_from == source
    assert values["watched_steps"] == 5
    assert values["host_evaluation_share"] == 0  # a job that only infers evaluates nothing


def test_marks_of_the_user_come_first(measured):
    process = Process()
    for _ in range(6):
        with process.around(recorded.RANGE, flags=5):
            process.train(2)
    values, found = measured(process)
    assert (found.steps_from, values["watched_steps"]) == ("ranges", 5)
    assert shares(values, "other") == [round(4 / 70, 3)]


def test_marks_of_a_users_profiler_are_not_those_of_the_run(measured):
    process = Process().train(20)
    for _ in range(5):
        with process.around(recorded.RANGE, flags=5):
            process.train(1)
    values, found = measured(process.train(20))
    assert (found.steps_from, values["watched_steps"]) == ("Optimizer.step", 44)


def test_our_own_stalls_and_watched_steps_are_no_steps(measured):
    process = Process().train(10)
    process.put(recorded.PROFILE, 90, flags=1)
    process.train(1, forward=60)
    process.put(recorded.PROFILE, 20, flags=1)
    process.train(3, forward=60)
    process.put(recorded.PROFILE, 100, flags=2)
    process.train(5)
    start = process.now
    process.train(1, forward=200)
    process.put(recorded.WATCH, process.now - start, 3, at=start)
    process.train(5)
    values, _ = measured(process)
    assert values["step_time_mean_s"] == pytest.approx(0.07, rel=0.01)
    assert values["host_forward_share"] == pytest.approx(20 / 70, rel=0.02)
    assert 15 <= values["watched_steps"] <= 19


def test_steps_beside_the_writing_of_our_trace_are_left_out(measured):
    process = Process().train(21)
    process.put(recorded.PROFILE, 10, flags=1)
    process.train(3)
    process.put(recorded.PROFILE, 10, flags=2)
    process.train(5, forward=60)  # 110 ms each, slowed by a thread that packs
    process.train(20)
    process.facts["profile"] = {"state": "done", "export_ms": 500.0, "trace": "trace-rank0-1-1.json.gz"}
    values, _ = measured(process)
    assert values["step_time_mean_s"] == pytest.approx(0.07, rel=0.01)


def test_a_short_job_keeps_the_steps_beside_our_trace(measured):
    process = Process().train(5)
    process.put(recorded.PROFILE, 10, flags=1)
    process.train(3)
    process.put(recorded.PROFILE, 10, flags=2)
    process.train(5)
    process.facts["profile"] = {"state": "done", "export_ms": 5000.0, "trace": None}
    values, _ = measured(process)
    assert values["watched_steps"] == 8


def test_steps_in_which_we_hold_up_another_rank_are_left_out(measured):
    first, second = Process(0, 10, 2).train(11), Process(1, 11, 2).train(11)
    first.put(recorded.PROFILE, 5000, flags=1)
    first.train(1)
    first.put(recorded.PROFILE, 100, flags=2)
    second.train(1, backward=5130)  # waits for the other
    first.train(11)
    second.train(11)
    values, found = measured(first, second)
    assert [m.value for m in found.measurements.each("step_time_mean_s")] == [pytest.approx(0.07, rel=0.03)] * 2
    assert values["host_backward_share"] == pytest.approx(30 / 70, rel=0.03)


def test_time_in_which_records_are_missing_is_not_judged(tmp_path):
    process = Process().train(40)
    folder = run_directory(tmp_path, process) / "node-box"
    (folder / f"{process.identity}.events").write_bytes(process.events(0, 40))
    (folder / f"{process.identity}.events.tail.0").write_bytes(process.events(81, 160))
    found = measure(load(tmp_path))
    values = {m.name: m.value for m in found.measurements}
    assert values["step_time_mean_s"] == pytest.approx(0.07)
    assert any("41 of 160 records are missing" in warning for warning in found.warnings)
