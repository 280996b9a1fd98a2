"""Everything together: beside made-up jobs with a clock of our own, and beside real ones."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.collect.conftest import RingWriter, Tree, process
from tests.collect.test_counters import small_files
from tests.collect.test_rings import all_records
from whyidle.collect import collector as collector_module
from whyidle.collect.collector import Collector
from whyidle.collect.missed import AFTER_S

SECOND = 1_000_000_000
NODE_KEYS = [
    *("whyidle_run", "whyidle", "host", "command", "cwd", "clock", "rings", "options", "interval_s", "machine"),
    *("gpus", "nvml", "ended", "not_captured", "warnings"),
]


class Beside:
    """A collector beside process 10 of a made-up machine, whose time a test drives."""

    def __init__(self, tree: Tree, tmp_path: Path, *, apart: bool = False, **options: Any) -> None:
        self.now = 0
        self.make = tree
        self.root = tree(process(10, command="python train.py"))
        self.node = tmp_path / "node-a"
        self.node.mkdir()
        self.capture = tmp_path / "local" if apart else self.node
        self.capture.mkdir(exist_ok=True)
        options = {"gpus": False, **options}
        self.collector = Collector(self.node, self.capture, 10, root=self.root, clock=lambda: self.now, **options)

    def run(self, seconds: float, step_s: float = 1.0) -> None:
        for _ in range(round(seconds / step_s)):
            self.collector.tick()
            self.now += round(step_s * SECOND)

    def facts(self) -> dict[str, Any]:
        return node(self.node)

    def rows(self, name: str) -> list[dict[str, str]]:
        return table(self.node / name)


def node(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "node.json").read_text())
    assert list(found) == NODE_KEYS
    return dict(found)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_job_from_start_to_end(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path, apart=True, options={"syncs": 3}, cwd=tmp_path)
    beside.collector.start()
    facts = beside.facts()
    assert (facts["command"], facts["cwd"]) == (["python", "train.py"], str(tmp_path))
    assert (facts["options"], facts["ended"], facts["rings"]) == ({"syncs": 3}, None, str(beside.capture))
    ring = RingWriter(beside.capture / "10-1.ring")
    for _ in range(5):
        ring.write(3)
        beside.run(1)
    (beside.capture / "10-1.facts.json").write_text("{}")
    shutil.rmtree(beside.root / "proc/10")
    beside.collector.close(3, None)
    beside.collector.close(0, None)
    assert beside.facts()["ended"] == {"mono_ns": 5 * SECOND, "exit_code": 3, "signal": None}
    assert all_records(beside.node, "10-1") == list(range(15))
    assert sorted(path.name for path in beside.node.iterdir()) == [
        "10-1.events",
        "10-1.facts.json",
        "host.csv",
        "node.json",
        "processes.csv",
    ]
    assert not ring.path.exists()
    assert [row["role"] for row in beside.rows("processes.csv")] == ["rank"] * 5
    assert [row["time_ns"] for row in beside.rows("host.csv")] == [str(second * SECOND) for second in range(6)]


def test_samples_keep_their_pace(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path, interval_s=0.2)
    ring = RingWriter(beside.capture / "10-1.ring")
    ring.write(1)
    beside.run(2, step_s=0.05)
    assert len(beside.rows("host.csv")) == 10
    beside.now += 100 * SECOND  # the machine slept: what was missed is not made up for
    beside.run(1, step_s=0.05)
    assert len(beside.rows("host.csv")) == 15
    assert 0 <= beside.collector.remaining_s() <= 0.2


def test_rings_are_drained_every_second_however_seldom_counters_are_read(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path, interval_s=60)
    ring = RingWriter(beside.capture / "10-1.ring", capacity=8)
    for _ in range(30):
        ring.write(4)
        beside.run(1)
    assert all_records(beside.node, "10-1") == list(range(120))
    assert len(beside.rows("host.csv")) == 1


def test_a_ring_of_a_living_process_stays(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path)
    ring = RingWriter(beside.capture / "10-1.ring")
    ring.write(3)
    beside.run(3)
    beside.collector.close(0)
    assert ring.path.exists()


def test_a_full_disk_is_one_warning_each(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path)
    beside.collector.start()
    RingWriter(beside.capture / "10-1.ring").write(3)
    with small_files(100):
        beside.run(10)
    beside.collector.close(0)
    assert beside.facts()["warnings"] == [
        "the records of the job's processes cannot be written: File too large",
        "host.csv ends early: File too large",
        "processes.csv ends early: File too large",
        "node.json cannot be written: File too large",
    ]
    assert all_records(beside.node, "10-1") == [0, 1, 2]  # there was room again at the end


def test_a_folder_that_is_taken_away(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path)
    beside.collector.start()
    beside.run(2)
    shutil.rmtree(beside.node)
    beside.run(2)
    beside.collector.close(0)
    assert beside.collector.warnings


def test_who_is_not_captured(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path)
    beside.make(
        {
            **process(10, command="python -I train.py", cpu_ticks=10**5),
            "proc/10/maps": "7f00 r-xp 0 08:01 9 /x/libtorch_cpu.so\n",
        }
    )
    beside.run(AFTER_S)
    assert beside.facts()["not_captured"] == []
    beside.run(6)
    assert beside.facts()["not_captured"] == [
        {
            "pid": 10,
            "command": "python -I train.py",
            "why": "Python was started with -I, which ignores PYTHONPATH",
            "hint": "start it without -I",
        }
    ]


def test_gpus(tree: Tree, tmp_path: Path, play: Callable[[str], None]) -> None:
    play("gpus 2\nprocess 0 1 10 500\n" + "".join(f"row 0 {gpu} 50 20 900 300 1500 60 0 7 8\n" for gpu in (0, 1)))
    beside = Beside(tree, tmp_path, gpus=True, environ={"CUDA_VISIBLE_DEVICES": "1"})
    beside.collector.start()
    assert beside.facts()["nvml"] == "not asked yet"
    beside.run(3)
    beside.collector.close(0)
    facts = beside.facts()
    assert facts["nvml"] == "ok"
    assert [gpu["visible"] for gpu in facts["gpus"]] == [False, True]
    rows = beside.rows("gpu.csv")
    assert [row["gpu"] for row in rows] == ["0", "1"] * 3
    assert [row["processes_of_job"] for row in rows] == ["0", "1"] * 3
    assert [row["pcie_rx_kb_s"] for row in rows] == ["7", "", "", "7", "7", ""]


def test_no_gpus_are_wanted(tree: Tree, tmp_path: Path) -> None:
    beside = Beside(tree, tmp_path)
    beside.run(1)
    assert (beside.facts()["nvml"], beside.facts()["gpus"]) == ("not asked", [])


linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

WORKING = "import time\nfor _ in range(400): sum(range(20000)); time.sleep(0.005)"


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something has happened; fail after a time in which it must have."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@linux
def test_beside_a_real_job(tmp_path: Path) -> None:
    def seen_twice() -> bool:
        collector.tick()
        return (tmp_path / "processes.csv").exists() and len(table(tmp_path / "processes.csv")) >= 2

    with subprocess.Popen([sys.executable, "-c", WORKING]) as job:
        wait_for(lambda: Path(f"/proc/{job.pid}/cmdline").read_bytes() != b"")  # empty while the system starts it
        collector = Collector(tmp_path, tmp_path, job.pid, 0.1, gpus=False)
        collector.start()
        wait_for(seen_twice)
        job.kill()
        job.wait()
        collector.close(None, signal.SIGKILL)
    facts = node(tmp_path)
    assert facts["ended"]["signal"] == 9
    assert facts["warnings"] == []
    assert facts["command"] == [sys.executable, "-c", WORKING]
    assert {row["pid"] for row in table(tmp_path / "processes.csv")} == {str(job.pid)}
    assert facts["clock"]["mono_ns"] <= int(table(tmp_path / "host.csv")[0]["time_ns"]) < time.perf_counter_ns()


COLLECTING = """
import os, sys, time
from pathlib import Path
from whyidle.collect import collector as collector_module
from whyidle.collect.collector import Collector
folder = Path(sys.argv[1])
collector = Collector(folder, folder, int(sys.argv[2]), 0.05, gpus=False)
collector.start()
while True:
    collector.tick()
    time.sleep(collector.remaining_s())
"""


@linux
def test_a_collector_that_is_killed_leaves_what_can_be_read(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / f"{os.getpid()}-1.ring")
    ring.write(3)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COLLECTING, str(tmp_path), str(os.getpid())]
    with subprocess.Popen(command, env=environment) as collecting:
        written = (tmp_path / "host.csv", tmp_path / f"{os.getpid()}-1.events")
        wait_for(lambda: all(file.exists() for file in written) and bool(table(written[0])))
        collecting.kill()
    assert node(tmp_path)["ended"] is None
    assert all_records(tmp_path, f"{os.getpid()}-1") == [0, 1, 2]
    assert table(tmp_path / "host.csv")
    ring.write(2)
    collector = Collector(tmp_path, tmp_path, os.getpid(), gpus=False)  # another takes over
    collector.tick()
    collector.close()
    assert all_records(tmp_path, f"{os.getpid()}-1") == [0, 1, 2, 3, 4]


def test_a_driver_that_hangs_holds_up_nothing(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    asked = []

    def hang(*_: object) -> bool:
        asked.append(1)
        answer.wait()
        return False

    monkeypatch.setattr(collector_module, "ANSWER_S", 0.01)
    monkeypatch.setattr(collector_module.Gpus, "open", hang)
    beside = Beside(tree, tmp_path, gpus=True)
    ring = RingWriter(beside.capture / "10-1.ring")
    for _ in range(3):
        ring.write(3)
        beside.run(1)
    beside.collector.close(0)
    assert asked == [1]
    assert beside.facts()["ended"]["exit_code"] == 0
    assert beside.facts()["warnings"] == ["the GPU driver did not answer when the job ended"]
    assert all_records(beside.node, "10-1") == list(range(9))
    answer.set()


def test_a_mistake_in_the_thread_of_the_gpus_is_not_lost(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(collector_module.Gpus, "open", fail)
    with pytest.raises(ZeroDivisionError):
        Beside(tree, tmp_path, gpus=True).collector.tick()
