"""Steps, phases and losses of a watched job: each loop by what it is known to do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import recorded
from tests.recorded import GPU_OF_MACHINE, OTHER, Process, run_directory
from whyidle.measure import measure
from whyidle.measure.step_log.nesting import WORK, rows_of, training_thread
from whyidle.measure.step_log.watch import watch
from whyidle.model.evidence import Record
from whyidle.model.finding import PHASES
from whyidle.read import load


@pytest.fixture
def measured(tmp_path):
    """Return a function that measures processes as one run: values by name, and the rest."""
    number = itertools.count()

    def read(*processes, device="cpu", **machine):
        for process in processes:
            if device:
                process.setting("device", device)
        found = measure(load(run_directory(tmp_path / str(next(number)), *processes, **machine)))
        values = {m.name: m.value for m in found.measurements if not m.subject}
        return values, found

    return read


def shares(values, *names):
    return [round(values[f"host_{name}_share"], 3) for name in names]


# steps


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


# evaluation


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


# losses


def test_without_a_gpu_a_wait_is_lost(measured):
    values, _ = measured(Process().train(20))
    assert values["lost_data_zero_share"] == pytest.approx(1 / 7)
    assert values["lost_data_workers_share"] == 0
    assert values["lost_data_first_share"] == 0


def test_on_a_gpu_only_what_the_gpu_waits_is_lost(measured):
    values, _ = measured(Process().train(20, data=35, idle=5, workers=True), device="cuda:0")
    assert values["on_gpu"] is True
    assert values["host_data_share"] == pytest.approx(35 / 95)
    assert values["lost_data_workers_share"] == pytest.approx(5 / 95)


def test_receiving_a_batch_that_is_ready_is_no_wait(measured):
    """Workers that deliver in time leave the training thread the unpacking; more of them would not help."""
    values, _ = measured(Process().train(20, workers=True, computed=1.0))
    assert shares(values, "data", "prepare") == [0.0, round(11 / 70, 3)]
    assert values["lost_data_workers_share"] == 0
    values, _ = measured(Process().train(20, workers=True, computed=0.5))
    assert shares(values, "data", "prepare") == [round(5 / 70, 3), round(6 / 70, 3)]
    assert values["lost_data_workers_share"] == pytest.approx(5 / 70)


def test_what_the_gpu_waits_while_its_host_unpacks_is_no_shortage_of_workers(measured):
    values, _ = measured(Process().train(20, data=35, idle=35, workers=True, computed=0.5), device="cuda:0")
    assert values["lost_data_workers_share"] == pytest.approx(17.5 / 95, rel=0.02)


def test_without_the_gpus_own_time_nothing_is_said_to_be_lost(measured):
    values, _ = measured(Process().train(20, data=35), device="cuda:0")
    assert "lost_data_zero_share" not in values
    assert "lost_data_other_share" in values  # there is none: every step has a batch
    assert values["host_data_share"] > 0.3


def test_a_gpu_that_waits_longer_than_its_host_waits_as_long(measured):
    values, _ = measured(Process().train(20, data=10, idle=50), device="cuda:0")
    assert values["lost_data_zero_share"] == pytest.approx(1 / 7)


def test_what_is_not_timed_on_the_gpu_is_taken_as_like_the_rest(measured):
    process = Process()
    for _ in range(10):
        process.train(2, idle=5).train(1)
    values, _ = measured(process, device="cuda:0")
    assert values["lost_data_zero_share"] == pytest.approx(0.5 / 7, rel=0.02)


def test_the_first_batch_of_an_epoch_costs_what_it_takes_beyond_others(measured):
    process = Process()
    for _ in range(4):
        process.iterate(30, workers=2)
        process.train(1, data=110, workers=True)
        process.train(9, data=10, workers=True)
        process.batch(5, workers=True, end=True)
    values, _ = measured(process)
    watched = values["watched_s"]
    assert values["lost_data_first_share"] * watched == pytest.approx(3 * (0.030 + 0.1 + 0.005))
    assert values["lost_data_workers_share"] * watched == pytest.approx(39 * 0.01)
    assert values["num_workers"] == 2
    total = sum(values[f"lost_data_{name}_share"] for name in ("zero", "workers", "first", "other"))
    assert total == pytest.approx(values["host_data_share"] + values["host_start_share"])


def test_data_that_comes_from_no_dataloader(measured):
    def job():
        process = Process()
        for _ in range(20):
            process.wait(40)
            process.forward(20)
            process.backward(30)
            process.step(5)
        return process

    values, found = measured(job())
    assert values["lost_data_other_share"] == pytest.approx(40 / 95)
    assert values["host_other_share"] == pytest.approx(40 / 95)
    assert "data_wait_share" not in values
    assert any("no DataLoader" in warning for warning in found.warnings)
    values, found = measured(job(), device="cuda:0")  # where the host may wait for the GPU instead
    assert "lost_data_other_share" not in values
    assert len(found.warnings) == 1
    assert found.warnings[0].endswith("no counters of the GPU, as NVML says: no NVIDIA driver.")


def test_an_evaluation_between_steps_is_no_wait_for_data_too(measured):
    process = Process()
    for _ in range(4):
        for _ in range(10):
            process.wait(40)
            process.forward(20)
            process.backward(30)
            process.step(5)
        for _ in range(10):
            process.forward(10, module=1, flags=0)
            process.wait(50)
    values, _ = measured(process)
    whole = values["watched_s"]
    assert values["lost_data_other_share"] == pytest.approx(40 * 0.04 / whole, rel=0.15)
    # what follows its last record is its own, until training goes on
    assert values["lost_evaluation_share"] == pytest.approx(3 * (10 * 0.05 + 0.04) / whole, rel=0.01)


def test_a_pause_that_is_far_longer_than_others_is_not_all_data(measured):
    process = Process()
    for index in range(40):
        process.wait(20_000 if index == 20 else 40)
        process.forward(20)
        process.backward(30)
        process.step(5)
    values, _ = measured(process)
    assert values["lost_data_other_share"] == pytest.approx((38 + 5) * 0.04 / values["watched_s"])


@pytest.mark.parametrize(("workers", "name"), [(False, "zero"), (True, "workers")])
def test_a_loader_that_another_thread_is_late_with(measured, workers, name):
    process = Process()
    for _ in range(40):
        began = process.now
        process.wait(40)
        process.thread, process.now = OTHER, began
        process.batch(40, workers=workers)
        process.thread = recorded.MAIN
        process.forward(20)
        process.backward(30)
        process.step(5)
    values, found = measured(process)
    assert values[f"lost_data_{name}_share"] == pytest.approx(40 / 95)
    assert values["lost_data_other_share"] == pytest.approx(0, abs=1e-9)
    assert found.warnings == ()


def test_pauses_that_are_rare_are_not_data(measured):
    process = Process()
    for number in range(20):
        process.wait(400 if number % 10 == 0 else 1)
        process.forward(20)
        process.backward(30)
        process.step(5)
    assert measured(process)[0]["lost_data_other_share"] == 0


def test_a_range_for_loading_is_data(measured):
    process = Process()
    for _ in range(10):
        process.put(recorded.RANGE, 30, flags=4)
        process.forward(20)
        process.backward(20)
        process.step(10)
    values, _ = measured(process)
    assert values["host_data_share"] == values["lost_data_other_share"] == pytest.approx(3 / 8)


def test_a_loader_in_another_thread_is_no_wait(measured):
    process = Process()
    for number in range(40):
        begins = process.now
        process.forward(20 if number % 2 else 30)
        process.backward(20 if number % 2 else 30)
        process.step(5 if number % 2 else 10)
        if number % 2 == 0:
            process.thread = OTHER
            process.put(recorded.BATCH, process.now - begins, 32 << 32, at=begins)
            process.thread = recorded.MAIN
    values, _ = measured(process)
    assert values["host_data_share"] == 0
    assert values["lost_data_zero_share"] == 0
    assert values["loading_thread_slowdown"] == pytest.approx(70 / 45)


def test_checkpoints(measured):
    process = Process()
    for _ in range(4):
        process.train(5)
        for _ in range(3):
            process.save(20, size=2_000_000)
    values, _ = measured(process)
    assert values["saves"] == 3
    assert values["save_bytes_per_s"] == pytest.approx(1e8)
    assert values["lost_save_share"] == values["host_save_share"] == pytest.approx(0.18 / values["watched_s"])


def test_a_checkpoint_that_the_gpu_works_through(measured):
    process = Process()
    for _ in range(4):
        process.train(5, idle=0)
        with process.around(recorded.RANGE, flags=2):
            process.save(60, idle=15)
    values, _ = measured(process, device="cuda")
    assert values["host_save_share"] * values["watched_s"] == pytest.approx(0.18)
    assert values["lost_save_share"] * values["watched_s"] == pytest.approx(0.045)


@pytest.mark.parametrize("flags", [0, 1])
def test_saves_in_the_background(measured, flags):
    process = Process().train(10)
    process.put(recorded.SAVE, 30, 1 << 20, flags)
    values, _ = measured(process.train(10))
    assert values["saves_in_background"] is bool(flags)


def test_garbage_collection_is_a_phase_whatever_it_interrupts(measured):
    process = Process()
    for _ in range(5):
        process.train(3)
        with process.around(recorded.BATCH, 32 << 32):
            process.wait(4)
            process.put(recorded.COLLECT, 6, 2)
        process.put(recorded.COLLECT, 3, 0)
        process.forward(20)
        process.backward(30)
        process.step(5)
    values, _ = measured(process)
    assert values["host_gc_share"] * values["watched_s"] == pytest.approx(5 * 0.009)
    assert values["gc_collections"] == 5
    assert values["lost_data_zero_share"] * values["watched_s"] == pytest.approx(14 * 0.01 + 5 * 0.004)


# ranks


def test_ranks_are_weighed_and_the_one_that_waits_most_gives_the_place(measured):
    first, second = Process(0, 10, 2).train(21), Process(1, 11, 2).train(11, data=40)
    for process, where in ((first, "train.py:1"), (second, "slow.py:9")):
        process.loaders.append({"loader": 0, "where": where, "num_workers": 0})
    values, found = measured(first, second)
    m = found.measurements
    data = m.one("host_data_share")
    assert data.value == pytest.approx((20 * 10 + 10 * 40) / (20 * 70 + 10 * 100))
    assert [(place.file, place.line) for place in data.locations] == [("slow.py", 9)]
    assert {part.subject: part.value for part in m.each("host_data_share")} == {
        "rank 0": pytest.approx(1 / 7),
        "rank 1": pytest.approx(0.4),
    }
    assert values["samples_per_s"] == pytest.approx(32 / 0.07 + 32 / 0.1)
    assert values["watched_steps"] == 15


def test_a_rank_that_waits_longer_for_data_while_all_step_together(measured):
    first = Process(0, 10, 2).train(21, data=4, backward=90)
    late = Process(1, 11, 2).train(21, data=80, backward=14)
    late.loaders.append({"loader": 0, "where": "slow.py:9", "num_workers": 0})
    values, found = measured(first, late)
    assert values["late_loader_share"] == pytest.approx((80 - 4) / 124, rel=0.01)
    assert values["late_loader_ranks"] == "1"
    (place,) = found.measurements.one("late_loader_share").locations
    assert (place.file, place.line) == ("slow.py", 9)
    alike, _ = measured(Process(0, 10, 2).train(21), Process(1, 11, 2).train(21))
    assert alike["late_loader_share"] == 0
    apart, _ = measured(Process(0, 10, 2).train(21), Process(1, 11, 2).train(21, data=80))
    assert "late_loader_share" not in apart


def test_phases_of_the_run_sum_to_one(measured):
    values, _ = measured(Process(0, 10, 2).train(21), Process(1, 11, 2).train(11, data=40))
    assert sum(values[f"host_{name}_share"] for name in PHASES) == pytest.approx(1)


# laws


RECORD = st.tuples(
    st.sampled_from([int(kind) for kind in Record]),
    st.integers(0, 60),  # start, ms
    st.integers(0, 30),  # duration, ms
    st.integers(0, 7),  # flags
    st.integers(0, 3),  # value
    st.sampled_from([recorded.MAIN, OTHER]),
)
LAW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)


def log_of(tmp_path, records):
    process = Process()
    for kind, start, took, flags, value, thread in records:
        process.thread = thread
        process.put(kind, took, value, flags, at=start)
    (log,) = load(run_directory(tmp_path, process)).logs
    return log


@given(st.lists(RECORD, max_size=40))
@LAW
def test_phases_are_exclusive_and_sum_to_one(tmp_path, records):
    w = watch(log_of(tmp_path, records), None)
    if w is not None:
        assert set(w.shares) == set(PHASES)
        assert sum(w.shares.values()) == pytest.approx(1)
        assert min(w.shares.values()) >= 0


@given(st.lists(RECORD, min_size=1, max_size=40))
@LAW
def test_each_moment_belongs_to_one_record(tmp_path, records):
    log = log_of(tmp_path, records)
    thread = training_thread(log)
    if thread is None:
        return
    rows = rows_of(log, thread)
    assert (rows.piece_end > rows.piece_start).all()
    assert (rows.piece_start[1:] == rows.piece_end[:-1]).all()
    busy = sum(rows.piece_end[rows.piece_of >= 0] - rows.piece_start[rows.piece_of >= 0])
    covered = {
        ms for start, end in zip(rows.start, rows.end, strict=True) for ms in range(start // 10**6, end // 10**6)
    }
    assert busy == len(covered) * 10**6
    assert set(np.unique(rows.kind)) <= set(WORK)


@given(st.lists(RECORD, max_size=40), st.sampled_from(["cpu", "cuda", None]))
@LAW
def test_losses_are_part_of_the_time(tmp_path, records, device):
    process = Process()
    if device:
        process.setting("device", device)
    for kind, start, took, flags, value, thread in records:
        process.thread = thread
        process.put(kind, took, value, flags, at=start)
    run = load(run_directory(tmp_path, process, gpus=[GPU_OF_MACHINE]))
    for m in measure(run).measurements:
        if m.unit == "of watched" and not isinstance(m.value, str):
            assert 0 <= m.value <= 1 + 1e-9, m.name


# code of the loop of which nothing is recorded


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
