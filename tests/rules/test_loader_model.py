"""How many workers a loader takes, on jobs of which the answer can be reckoned by hand."""

from __future__ import annotations

import pytest

from whyidle.model.evidence import Value
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import ask
from whyidle.rules.input import taken
from whyidle.rules.input.loader_model import cpus_per_rank, plan

# A step of 100 ms, of which 80 ms are waiting; a batch takes 80 ms and does not vary.
SLOW: dict[str, Value] = {
    "watched_s": 100.0, "watched_steps": 1000, "batch_seconds": 0.08, "batch_spread": 0.0, "batch_cpu_share": 1.0,
}  # fmt: skip


def measurements(given: dict[str, Value]) -> Measurements:
    return Measurements(Measurement(name, value) for name, value in given.items())


@pytest.mark.parametrize(
    ("change", "workers", "saved", "limited"),
    [
        ({}, 5, 0.8, False),  # 1.15 x 80 ms / 20 ms, rounded up
        ({"batch_spread": 1.0}, 10, 0.8, False),
        ({"loader_batches_per_step": 2.0}, 10, 0.8, False),
        ({"cpus_allowed": 6, "batch_spread": 1.0}, 5, 0.8, True),  # one CPU stays with the training thread
        ({"cpus_allowed": 3}, 3, 1 - 0.08 / 3 / 0.1, True),  # which would wait all the same
        ({"cpus_allowed": 12, "ranks_on_machine": 4}, 3, 1 - 0.08 / 3 / 0.1, True),
        ({"cpus_allowed": 2}, 2, 0.6, True),
        ({"cpus_allowed": 1, "on_gpu": False}, 1, 0.0, True),  # 80 ms and 20 ms of one CPU are 100 ms
        ({"cpus_allowed": 2, "on_gpu": False}, 2, 0.5, True),  # 100 ms of CPU on two of them
        ({"cpus_allowed": 2, "on_gpu": False, "batch_cpu_share": 0.0}, 5, 0.8, False),  # workers that sleep
    ],
)
def test_workers(change: dict[str, Value], workers: int, saved: float, limited: bool) -> None:
    found = plan(measurements(SLOW | change), 0.8)
    assert found is not None
    assert (found.workers, found.cpus_are_the_limit) == (workers, limited)
    assert found.saved == pytest.approx(saved)


@pytest.mark.parametrize("missing", ["batch_seconds", "watched_s", "watched_steps"])
def test_without_its_numbers_there_is_no_plan(missing: str) -> None:
    assert plan(measurements({name: value for name, value in SLOW.items() if name != missing}), 0.5) is None
    assert plan(measurements(SLOW | {missing: 0}), 0.5) is None


def test_cpus_are_shared_by_ranks() -> None:
    assert cpus_per_rank(measurements({})) is None
    assert cpus_per_rank(measurements({"cpus_allowed": 64, "ranks_on_machine": 8})) == 8
    assert cpus_per_rank(measurements({"cpus_allowed": 2, "ranks_on_machine": 8})) == 1


def test_a_finding_tells_the_number_to_set() -> None:
    (zero,) = ask(measurements(SLOW | {"lost_data_zero_share": 0.8, "cpus_allowed": 32}))[0]
    assert "num_workers=5," in zero.fixes[0].change
    late = SLOW | {"lost_data_workers_share": 0.5, "batch_seconds": 0.2, "num_workers": 2, "cpus_allowed": 32}
    (few,) = [found for found in ask(measurements(late))[0] if found.rule == "input.workers_too_few"]
    assert "num_workers=5," in few.fixes[0].change


def test_workers_that_would_do_if_batches_took_equal_time_need_more_batches_ahead_first() -> None:
    late = SLOW | {"lost_data_workers_share": 0.2, "batch_seconds": 0.3, "batch_spread": 1.5, "num_workers": 4}
    (few,) = [found for found in ask(measurements(late))[0] if found.rule == "input.workers_too_few"]
    assert [fix.change.partition("(..., ")[2][:8] for fix in few.fixes] == ["prefetch", "num_work"]


def test_enough_workers_that_take_unequal_time_need_more_batches_ahead() -> None:
    late = SLOW | {"lost_data_workers_share": 0.1, "num_workers": 8, "prefetch_factor": 4, "cpus_allowed": 32}
    (few,) = [found for found in ask(measurements(late))[0] if found.rule == "input.workers_too_few"]
    assert [fix.change for fix in few.fixes] == ["DataLoader(..., prefetch_factor=8)"]


# Two CPUs, of which other programs use 1.3; the training process got the rest, and is on no GPU.
FULL: dict[str, Value] = SLOW | {
    "on_gpu": False, "cpus_allowed": 2, "cpus_online": 2, "cpus_taken": 1.33, "job_cpu_share": 0.335,
    "batch_cpu_share": 0.67,
}  # fmt: skip


def test_a_full_machine_leaves_less_than_all_and_more_than_nothing() -> None:
    found = plan(measurements(FULL), 0.6)
    assert found is not None
    assert 0.15 < found.saved < 0.35, "21 to 33% were measured where 54% were promised"
    free = plan(measurements(FULL | {"cpus_taken": 0.02}), 0.6)
    assert free is not None
    assert free.saved > 0.5


def test_programs_outside_a_container_take_what_it_may_not_use_first() -> None:
    pod: dict[str, Value] = {"cpus_allowed": 4, "cpus_online": 64, "cpus_taken": 50}
    assert (taken.free(measurements(pod)), taken.much(measurements(pod))) == (4, False)
    pod["cpus_taken"] = 62
    assert (taken.free(measurements(pod)), taken.much(measurements(pod))) == (2, True)
    assert 2 < (taken.to_have(measurements(pod)) or 0) < 4


def test_advice_says_who_has_the_cpus_and_is_less_sure() -> None:
    (zero,) = ask(measurements(FULL | {"lost_data_zero_share": 0.6}))[0]
    assert "other programs use 1.3 of the machine's 2 CPUs" in zero.seen
    assert zero.confidence <= 0.5
    assert "num_workers=1," in zero.fixes[0].change
    assert "CPUs are free" in zero.fixes[1].title
    after = FULL | {
        "lost_data_workers_share": 0.4, "num_workers": 1, "batch_run_delay_share": 0.5, "batch_cpu_share": 0.45,
        "cpu_quota": 2, "batch_blocked_share": 0.05,
    }  # fmt: skip
    (late,) = ask(measurements(after))[0]
    assert "other programs use 1.3 of the machine's 2 CPUs" in late.seen
    assert "CPUs are free" in late.fixes[0].title
    assert "host.cpu_quota" not in late.candidates
    text = " ".join(fix.change for fix in late.fixes)
    assert "GPU" not in text
    assert "num_proc=1)" in text
    assert "16" not in text


def test_no_workers_for_batches_that_are_made_as_fast_as_they_are_handed_over() -> None:
    quick: dict[str, Value] = {
        "watched_s": 10.0, "watched_steps": 1000, "batch_seconds": 0.0006, "lost_data_zero_share": 0.06,
        "cpus_allowed": 8,
    }  # fmt: skip
    (found,) = ask(measurements(quick))[0]
    assert not any("num_workers" in fix.change for fix in found.fixes)
    assert "0.6 ms" in found.seen


def test_a_worker_saves_no_more_than_receiving_from_it_leaves() -> None:
    short = SLOW | {"watched_s": 10.0, "batch_seconds": 0.005}
    found, free = (plan(measurements(short), 0.5, handover=handover) for handover in (0.002, 0.0))
    assert found is not None
    assert free is not None
    assert (found.saved, free.saved) == (pytest.approx(0.3), pytest.approx(0.5))


def test_what_one_rank_waits_longer_than_others_is_told_once() -> None:
    one: dict[str, Value] = {"late_loader_share": 0.5, "late_loader_ranks": "3"}
    for wait in ("zero", "workers", "first", "other"):
        findings = ask(measurements(one | {f"lost_data_{wait}_share": 0.6}))[0]
        told = {found.rule: found.lost_share for found in findings}
        assert told.pop("dist.input_straggler") == 0.5
        assert list(told.values()) == [pytest.approx(0.1)], "what all ranks wait"
        (late,) = (found for found in findings if found.rule == "dist.input_straggler")
        assert late.message.startswith("Rank 3 waits")
