"""NVML for days on end: it fails midway, is unloaded and comes back, hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collect.conftest import Tree
from whyidle.collect import nvml
from whyidle.collect.nvml import Occupant
from whyidle.errors import WhyIdleError
from whyidle.watch import driver
from whyidle.watch.driver import HANGS, Driver

Play = Callable[[str], None]
ROW = "row 0 {gpu} 87 41 40000 600 1755 66 20 1200 800\n"
NAMESPACE = "proc/self/ns/pid"


@pytest.fixture
def machine(tree: Tree) -> Path:
    """Return a machine on which processes can be seen, with process 17."""
    root = tree({"proc/17/comm": "python\n", "proc/self/x": ""})
    (root / NAMESPACE).parent.mkdir(parents=True)
    (root / NAMESPACE).symlink_to("pid:[4026531836]")
    return root


def test_a_busy_gpu(play: Play, machine: Path) -> None:
    play(ROW.format(gpu=0) + "process 0 0 17 39000\n")
    sample = Driver(machine).sample(0.0)
    assert sample.state == "ok"
    gpu = sample.gpus[0]
    assert (gpu.name, gpu.sm_clock_max_mhz, gpu.memory_bytes) == ("NVIDIA H100 80GB HBM3", 1980, 81559 << 20)
    reading = sample.of(gpu)
    assert reading is not None
    assert (reading.utilization_percent, reading.throttle_reasons, reading.held) == (87, 0x20, True)
    assert reading.occupants == (Occupant(17, 39000 << 20),)


UUID = "GPU-00000000-0000-0000-0000-{:012}"


def test_memory_that_is_held_by_nobody(play: Play, machine: Path) -> None:
    play("row 0 0 0 0 40000 90 1755 40 0 0 0\n")
    reading = Driver(machine).sample(0.0).readings[UUID.format(0)]  # type: ignore[index]
    assert (reading.occupants, reading.held) == ((), True)


def test_in_a_container_an_empty_list_says_nothing(play: Play, tree: Tree) -> None:
    root = tree({"proc/self/x": ""})
    (root / NAMESPACE).parent.mkdir(parents=True)
    (root / NAMESPACE).symlink_to("pid:[4026532000]")
    play("row 0 0 0 0 40000 90 1755 40 0 0 0\n")
    reading = Driver(root).sample(0.0).readings[UUID.format(0)]  # type: ignore[index]
    assert (reading.occupants, reading.held) == (None, True)


def test_one_of_two_falls_off_its_bus(play: Play, machine: Path) -> None:
    clock = machine / "clock"
    clock.write_text("0")
    play(f"gpus 2\nclock {clock}\nlost 1 5\n" + ROW.format(gpu=0) + ROW.format(gpu=1))
    source = Driver(machine)
    assert set(source.sample(0.0).readings or {}) == {UUID.format(0), UUID.format(1)}
    clock.write_text("5")
    for second in (5.0, 6.0, 66.0, 67.0):  # it is looked for again meanwhile
        sample = source.sample(second)
        assert sample.state == "ok"
        assert [gpu.index for gpu in sample.gpus] == [0, 1]
        assert set(sample.readings or {}) == {UUID.format(0)}


def test_the_driver_is_unloaded_and_comes_back(play: Play, machine: Path) -> None:
    clock = machine / "clock"
    clock.write_text("0")
    scenario = f"clock {clock}\nlost 0 5\n" + ROW.format(gpu=0)
    play(scenario)
    source = Driver(machine)
    source.sample(0.0)
    clock.write_text("5")
    sample = source.sample(5.0)
    assert (sample.state, len(sample.gpus), sample.readings) == ("no GPU answers any more", 1, {})
    play("init 9\n")
    sample = source.sample(15.0)
    assert (sample.state, len(sample.gpus)) == ("the NVIDIA driver is not loaded", 1)
    assert source.sample(24.0).state == "the NVIDIA driver is not loaded"
    play(ROW.format(gpu=0))
    sample = source.sample(25.0)
    assert (sample.state, set(sample.readings or {})) == ("ok", {UUID.format(0)})
    source.close()


def test_a_driver_that_hangs(play: Play, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(ROW.format(gpu=0))
    source = Driver(machine)
    assert source.sample(0.0).state == "ok"
    answered = threading.Event()
    asked = nvml.Gpus.sample

    def hangs(gpus: nvml.Gpus, job: object) -> list[object]:
        answered.wait(30)
        return []

    monkeypatch.setattr(nvml.Gpus, "sample", hangs)
    monkeypatch.setattr(driver, "ANSWER_S", 0.01)
    for second in (1.0, 2.0):
        sample = source.sample(second)
        assert (sample.state, len(sample.gpus), sample.readings) == (HANGS, 1, None)
    answered.set()
    monkeypatch.setattr(nvml.Gpus, "sample", asked)
    monkeypatch.setattr(driver, "ANSWER_S", 10.0)
    source._asking.join(10)  # type: ignore[union-attr]
    assert source.sample(3.0).state in {"ok", "no GPU answers any more"}
    assert source.sample(14.0).state == "ok"


def test_no_gpu_at_all_is_said(play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    play("init 9\n")
    with pytest.raises(WhyIdleError, match=r"no GPU can be watched here: the NVIDIA driver is not loaded"):
        driver.find(0.0)
    play("gpus 0\n")
    with pytest.raises(WhyIdleError, match="sees no GPU"):
        driver.find(0.0)
