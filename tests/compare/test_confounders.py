"""What else differs between two runs, and how much that weighs."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from tests.compare.sides import repeat, steps
from whyidle.compare.arms import Repeat
from whyidle.compare.confounders import between, not_recorded, sm_clock_mhz
from whyidle.model.evidence import Series, Value
from whyidle.model.measurement import Measurement, Measurements


def run(**options: object) -> Repeat:
    return repeat(steps(0.1), **options)  # type: ignore[arg-type]


def weights(before: Repeat, after: Repeat) -> dict[str, str]:
    return {each.name: each.weight for each in between(before, after)}


def gpu_series(clock: float, reasons: float = 0.0, used: float = 90.0) -> tuple[Series, ...]:
    time = np.arange(10, dtype=np.int64)
    columns = {"sm_clock_mhz": clock, "utilization_percent": used, "throttle_reasons": reasons}
    return tuple(Series(name, "node", time, np.full(10, value), device=0) for name, value in columns.items())


def test_the_same_run_differs_in_nothing() -> None:
    one = run(gpu="NVIDIA A100", settings={"num_workers": 4, "model": "Net"}, host="a", world_size=8)
    assert between(one, one) == ()


def test_another_gpu_blocks() -> None:
    assert weights(run(gpu="NVIDIA A100"), run(gpu="NVIDIA H100")) == {"gpu": "blocks"}
    assert weights(run(gpu="NVIDIA A100"), run(gpu="A100")) == {}


def test_a_gpu_without_a_name_is_not_another_one() -> None:
    assert weights(run(gpu="unknown GPU"), run(gpu="NVIDIA H100")) == {}


def test_another_number_of_ranks_blocks() -> None:
    assert weights(run(world_size=1), run(world_size=8)) == {"world_size": "blocks"}


@pytest.mark.parametrize(
    ("before", "after", "weight"),
    [
        ({"model": "Net", "parameters": 100}, {"model": "Net", "parameters": 100}, None),
        ({"model": "Net", "parameters": 100}, {"model": "Net", "parameters": 300}, "blocks"),
        ({"model": "Net", "parameters": 1000}, {"model": "Other", "parameters": 1000}, "doubts"),  # it was renamed
        ({"model": "a.Net"}, {"model": "b.FSDPNet"}, "doubts"),  # it was moved, and wrapped
        ({"model": "a.Net"}, {"model": "a.Other"}, "blocks"),
        ({"model": "Net", "parameters": 1000}, {"model": "PeftModel", "parameters": 1010}, "doubts"),
        ({"model": "Net", "parameters": 100}, {"model": "Net", "parameters": 25, "wrapper": "fully_shard"}, "doubts"),
    ],
)
def test_models(before: dict[str, Value], after: dict[str, Value], weight: str | None) -> None:
    assert weights(run(settings=before), run(settings=after)).get("model") == weight


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((), ("--seed", "1"), "with --seed 1"),
        (("--ms", "2"), (), "without --ms 2"),
        (("--lr", "1"), ("--lr", "2"), "--lr 1 → --lr 2"),
    ],
)
def test_what_changed_in_the_command_is_said(before: tuple[str, ...], after: tuple[str, ...], said: str) -> None:
    sides = [commanded("python", "train.py", *options) for options in (before, after)]
    (found,) = between(*sides)
    assert (found.name, found.weight, found.message) == ("command", "noted", f"command: {said}")


def commanded(*command: str) -> Repeat:
    one = run(host="a")
    return replace(one, run=replace(one.run, nodes=(replace(one.run.nodes[0], command=command),)))


def test_two_recorded_ranks_are_not_one() -> None:
    def ranks(*numbers: int | None, world_size: int | None = None) -> Repeat:
        one = run(world_size=world_size)
        return replace(one, run=replace(one.run, traces=tuple(Mock(rank=number, metadata={}) for number in numbers)))

    assert weights(ranks(0, 1), ranks(None)) == {"ranks": "blocks"}
    assert weights(ranks(0, world_size=2), ranks(None)) == {}  # one of two was recorded: of the other nobody knows
    assert weights(ranks(0, 1), ranks(1, 0)) == {}


def test_clocks_that_are_far_apart_block() -> None:
    one, other = run(host="node", series=gpu_series(1410)), run(host="node", series=gpu_series(1005))
    assert weights(one, other) == {"sm_clock_mhz": "blocks"}
    (found,) = between(one, other)
    assert (found.before, found.after) == ("1410", "1005")
    assert "1,410 and 1,005 MHz while the GPU was busy, 40% apart" in found.message


def test_clocks_that_wander_are_doubted_and_small_steps_are_not() -> None:
    assert weights(run(host="node", series=gpu_series(1410)), run(host="node", series=gpu_series(1350))) == {
        "sm_clock_mhz": "doubts"
    }
    assert weights(run(host="node", series=gpu_series(1410)), run(host="node", series=gpu_series(1395))) == {}


def test_clocks_count_while_the_gpu_is_busy() -> None:
    time = np.arange(4, dtype=np.int64)
    series = (
        Series("sm_clock_mhz", "n", time, np.array([210.0, 1400, 1410, 210]), device=0),
        Series("utilization_percent", "n", time, np.array([0.0, 80, 90, 0]), device=0),
    )
    assert sm_clock_mhz(run(host="n", series=series)) == 1405
    assert sm_clock_mhz(run()) is None


def test_versions_and_machines_are_doubted_and_settings_noted() -> None:
    one = run(settings={"torch_version": "2.5", "num_workers": 0, "optimizer_site": "a.py:1"}, host="a")
    other = run(settings={"torch_version": "2.6", "num_workers": 4, "optimizer_site": "a.py:9"}, host="b")
    assert weights(one, other) == {"node": "doubts", "torch_version": "doubts", "num_workers": "noted"}


def test_what_blocks_comes_first() -> None:
    one, other = run(gpu="A100", host="a", settings={"x": 1}), run(gpu="H100", host="b", settings={"x": 2})
    assert [each.weight for each in between(one, other)] == ["blocks", "doubts", "noted"]


def test_steps_that_were_recognised_in_another_way_are_doubted() -> None:
    one, other = repeat(steps(0.1), source="ProfilerStep"), repeat(steps(0.1), source="DataLoader")
    assert weights(one, other) == {"steps_from": "doubts"}


def test_what_was_not_recorded_is_said() -> None:
    assert "the machine" in not_recorded(run(), run(host="a"))
    assert "the machine" not in not_recorded(run(host="a"), run(host="a"))


def test_other_steps_of_the_job_are_doubted() -> None:
    one, other = (repeat(steps(0.1), number=np.arange(first, first + 100)) for first in (1, 701))
    (found,) = between(one, other)
    assert (found.name, found.weight) == ("steps", "doubts")
    assert "they hold steps 1–100 and 701–800" in found.message
    large = repeat(steps(0.1), number=np.arange(1, 101), samples=256)
    small = repeat(steps(0.1, 800), number=np.arange(1, 801), samples=32)
    assert "steps" not in weights(small, large)  # the same samples
    assert "steps" not in weights(repeat(steps(0.1), number=np.arange(1, 101), samples=32), large)  # the same steps
    assert between(one, one) == ()


def test_lines_of_a_log_that_tell_of_more_steps_are_doubted() -> None:
    one, other = (repeat(steps(0.1), number=every * np.arange(1, 101)) for every in (1, 10))
    assert "log_interval" in weights(one, other)


def test_programs_that_take_the_cpus_of_one_run_are_doubted() -> None:
    def crowded(taken: float, waits: float) -> Repeat:
        told = [Measurement("cpus_taken", taken), Measurement("main_run_delay_share", waits)]
        one = run()
        return replace(one, measured=replace(one.measured, measurements=Measurements(told)))

    assert weights(crowded(1.7, 0.7), crowded(1.6, 0.5)) == {"main_run_delay_share": "doubts"}
    assert weights(crowded(1.7, 0.7), crowded(1.6, 0.68)) == {}
    assert weights(crowded(0.1, 0.7), crowded(0.1, 0.5)) == {}  # its own threads
