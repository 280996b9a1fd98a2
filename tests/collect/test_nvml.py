"""GPUs through NVML, played by a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collect.conftest import Scenario, Tree
from whyidle.collect import nvml
from whyidle.collect.nvml import COLUMNS, Facts, Gpus, mark_visible

Play = Callable[[str], None]
ROW = "row 0 {gpu} 87 41 40000 600 1755 66 20 1200 800\n"


def opened(warnings: list[str] | None = None, root: Path = Path("/"), **environ: str) -> Gpus:
    gpus = Gpus((warnings if warnings is not None else []).append, root, environ)
    gpus.open(0.0)
    return gpus


def sampled(gpus: Gpus, job: set[int] | None = None) -> list[dict[str, float | None]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in gpus.sample(job or set())]


def test_a_busy_gpu(play: Play) -> None:
    play(ROW.format(gpu=0))
    gpus = opened()
    assert gpus.state == "ok"
    assert sampled(gpus) == [
        {
            "gpu": 0,
            "utilization_percent": 87,
            "memory_utilization_percent": 41,
            "memory_used_bytes": 40000 << 20,
            "power_w": 600.0,
            "sm_clock_mhz": 1755,
            "temperature_c": 66,
            "throttle_reasons": 0x20,
            "pcie_rx_kb_s": 1200,
            "pcie_tx_kb_s": 800,
            "processes_of_job": 0,
            "processes_foreign": 0,
            "memory_foreign_bytes": 0,
        }
    ]


def test_what_a_gpu_is(play: Play, tree: Tree) -> None:
    play("width 4\n" + ROW.format(gpu=0))
    gpus = opened(
        root=tree(
            {
                "sys/bus/pci/devices/0000:1a:00.0/numa_node": "1\n",
                "sys/devices/system/node/node1/cpulist": "16-31\n",
            }
        )
    )
    assert gpus.facts() == [
        {
            "index": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": "GPU-00000000-0000-0000-0000-000000000000",
            "memory_bytes": 81559 << 20,
            "pcie_generation": 5,
            "pcie_width": 4,
            "pcie_generation_max": 5,
            "pcie_width_max": 16,
            "power_limit_w": 500.0,
            "power_limit_default_w": 700.0,
            "sm_clock_max_mhz": 1980,
            "numa_node": 1,
            "numa_cpus": "16-31",
            "mig": False,
            "visible": True,
        }
    ]


def test_a_link_that_sleeps_is_not_taken_for_a_slow_one(play: Play, tmp_path: Path) -> None:
    """It is looked at again while the GPU works."""
    clock = tmp_path / "clock"
    clock.write_text("0")
    play(f"clock {clock}\nrow 5 0 90 0 0 0 0 0 0 0 0\n")
    gpus = opened()
    assert gpus.facts()[0]["pcie_generation"] == 1
    clock.write_text("6")
    for _ in range(nvml.LINK_SAMPLES):
        gpus.sample(set())
    assert gpus.facts()[0]["pcie_generation"] == 5


@pytest.mark.parametrize(
    ("word", "column"),
    [
        ("utilization", "utilization_percent"),
        ("memory", "memory_used_bytes"),
        ("power", "power_w"),
        ("clock", "sm_clock_mhz"),
        ("temperature", "temperature_c"),
        ("throttle", "throttle_reasons"),
        ("pcie", "pcie_rx_kb_s"),
        ("processes", "processes_foreign"),
    ],
)
def test_what_is_not_supported_is_not_zero(play: Play, word: str, column: str) -> None:
    play(f"unsupported {word}\n" + ROW.format(gpu=0))
    gpus = opened()
    for _ in range(2):
        (row,) = sampled(gpus)
        assert row[column] is None
        assert sum(value is not None for value in row.values()) >= len(COLUMNS) - 3


def test_facts_that_are_not_supported(play: Play) -> None:
    play("unsupported limits\nunsupported link\nunsupported pci\nunsupported memory\n")
    (facts,) = opened().facts()
    unknown = [name for name, value in facts.items() if value is None]
    assert unknown == [
        "memory_bytes",
        "pcie_generation",
        "pcie_width",
        "pcie_generation_max",
        "pcie_width_max",
        "power_limit_w",
        "power_limit_default_w",
        "sm_clock_max_mhz",
        "numa_node",
        "numa_cpus",
    ]


def test_eight_gpus_take_turns_with_the_slow_question(play: Play) -> None:
    play("gpus 8\n" + "".join(ROW.format(gpu=gpu) for gpu in range(8)))
    gpus = opened()
    rounds = [sampled(gpus) for _ in range(8)]
    assert [row["gpu"] for row in rounds[0]] == list(range(8))
    carried = [[row["gpu"] for row in rows if row["pcie_rx_kb_s"] is not None] for rows in rounds]
    assert carried == [[gpu] for gpu in range(8)]


def test_a_gpu_that_vanishes_is_left_alone(play: Play, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    play(f"clock {clock}\ngpus 3\nlost 1 5\n")
    warnings: list[str] = []
    gpus = opened(warnings)
    assert len(gpus.sample(set())) == 3
    clock.write_text("6")
    assert [row["gpu"] for row in sampled(gpus)] == [0, 2]
    assert [row["gpu"] for row in sampled(gpus)] == [0, 2]
    assert warnings == ["GPU 1 does not answer any more: GPU is lost"]
    assert len(gpus.facts()) == 3


def test_processes_of_the_job_and_others(play: Play) -> None:
    other = os.getppid()
    play(f"gpus 2\nprocess 0 0 {os.getpid()} 1000\nprocess 0 0 {other} 500\nprocess 0 0 {other} 20\n")
    first, second = sampled(opened(), {os.getpid()})
    assert (first["processes_of_job"], first["processes_foreign"]) == (1, 2)
    assert first["memory_foreign_bytes"] == 520 << 20
    assert (second["processes_of_job"], second["processes_foreign"], second["memory_foreign_bytes"]) == (0, 0, 0)


def test_a_driver_before_510_knows_an_older_question(play: Play) -> None:
    play(f"unsupported processes_v3\nprocess 0 0 {os.getpid()} 1000\n")
    (row,) = sampled(opened(), {os.getpid()})
    assert row["processes_of_job"] == 1


def test_ids_of_another_namespace_are_nobodys(play: Play, tree: Tree) -> None:
    """NVML counts in the machine's ids, a container in its own: an id that is not there is not called foreign."""
    root = tree({"proc/7/comm": "python\n"})
    play("process 0 0 4194000 1000\nprocess 0 0 7 10\n")
    (row,) = sampled(opened(root=root), {7})
    assert (row["processes_of_job"], row["processes_foreign"], row["memory_foreign_bytes"]) == (None, None, None)


def test_the_server_of_mps_is_no_job(play: Play, tree: Tree) -> None:
    root = tree({"proc/7/comm": "nvidia-cuda-mps\n", "proc/8/comm": "python\n"})
    play("process 0 0 7 30\nprocess 0 0 8 10\n")
    (row,) = sampled(opened(root=root), {8})
    assert (row["processes_of_job"], row["processes_foreign"]) == (1, 0)


def test_mig(play: Play) -> None:
    play("gpus 2\nmig\nprocess 0 0 1 1000\n")
    gpus = opened(CUDA_VISIBLE_DEVICES="MIG-00000000-0000-0000-0000-000000000001")
    assert [(facts["mig"], facts["visible"]) for facts in gpus.facts()] == [(True, False), (True, True)]
    row = sampled(gpus)[0]
    assert (row["utilization_percent"], row["processes_foreign"]) == (None, None)
    assert row["temperature_c"] == 35


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "the NVIDIA driver is not loaded"),
        (18, "the NVIDIA driver that is loaded and its library have different versions"),
        (999, "NVML: Unknown Error"),
    ],
)
def test_a_driver_that_does_not_start_is_asked_once_more(play: Play, code: int, words: str) -> None:
    play(f"init {code}\n")
    gpus = Gpus([].append)
    assert gpus.open(0.0)
    assert gpus.state == words
    assert sampled(gpus) == []
    assert not gpus.open(1.0)
    play(f"init {code}\n")
    assert not gpus.open(nvml.RETRY_S)  # no news
    play("gpus 1\n")
    assert not gpus.open(10 * nvml.RETRY_S)  # not a third time
    assert gpus.state == words


def test_a_driver_that_starts_late(play: Play) -> None:
    play("init 9\n")
    gpus = opened()
    play("gpus 2\n")
    assert gpus.open(nvml.RETRY_S)
    assert gpus.state == "ok"
    assert len(gpus.facts()) == 2


def test_no_gpu(play: Play) -> None:
    play("gpus 0\n")
    assert opened().state == "the NVIDIA driver sees no GPU"


def test_after_the_end_the_facts_stay(play: Play) -> None:
    play("gpus 2\n")
    gpus = opened()
    gpus.close()
    gpus.close()
    assert len(gpus.facts()) == 2
    assert gpus.sample(set()) == []


PROGRAM = "from whyidle.collect.nvml import Gpus; g = Gpus(print); g.open(0); print(g.state, len(g.facts()))"


def program(**environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


def test_another_process_finds_the_stand_in(nvml_stub: Scenario) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert program(**nvml_stub("gpus 8\n")) == "ok 8"


def test_a_machine_without_a_driver() -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    try:
        import ctypes

        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        assert program() == "no NVIDIA driver library (libnvidia-ml.so.1) 0"
    else:
        pytest.skip("this machine has a driver")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [True, True, True]),
        ({"CUDA_VISIBLE_DEVICES": ""}, [False, False, False]),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, [False, False, False]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [True, False, True]),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, [False, True, False]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, [False, True, False]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aa1,GPU-c"}, [True, False, True]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-GPU-c0/1/0"}, [False, False, True]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-7"}, [False, True, False]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, [False, False, False]),
        ({"CUDA_VISIBLE_DEVICES": "9"}, [False, False, False]),
    ],
)
def test_which_gpus_are_the_jobs(environ: dict[str, str], expected: list[bool]) -> None:
    gpus = [Facts(index, name="A100", uuid=uuid) for index, uuid in enumerate(("GPU-aa1", "GPU-b2", "GPU-c0"))]
    mark_visible(list(zip(gpus, ([], ["MIG-77"], []), strict=True)), environ)
    assert [facts.visible for facts in gpus] == expected


def test_numbers_of_different_gpus_tell_only_in_pci_order() -> None:
    def marked(**environ: str) -> list[bool | None]:
        gpus = [Facts(0, name="T400"), Facts(1, name="A100")]
        mark_visible([(facts, []) for facts in gpus], environ)
        return [facts.visible for facts in gpus]

    assert marked(CUDA_VISIBLE_DEVICES="0") == [None, None]
    assert marked(CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID") == [True, False]
