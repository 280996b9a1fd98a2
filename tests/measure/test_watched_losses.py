"""What the waits of a watched job cost it, of one rank and of several."""

from __future__ import annotations

import pytest

from tests import recorded
from tests.recorded import OTHER, Process, shares
from whyidle.model.finding import PHASES


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
