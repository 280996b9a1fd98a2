"""Whole runs on machines of which the truth is known: a fake accelerator, a stand-in for NVML, and the verdict on them.

Each job has one fault, and each machine one peculiarity; both are in one run, since neither hides the other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import fakegpu, nvml
from tests.launch.conftest import DEADLINE_S, environment

pytest.importorskip("torch", reason="torch is not installed")

HERE = Path(__file__).parent
# of each row: second, GPU, utilization, of memory, MB, W, MHz, C, reasons to throttle, PCIe kB/s
MACHINES = {
    "healthy": "gpus 8\nrow 0 0 97 60 40000 650 1900 60 0 100 100\n",
    "throttled": "row 0 0 97 60 40000 500 990 91 20 100 100\n",
    "input_bound": "init 9\n",
    "sync_bound": "width 4\nrow 0 0 33 10 4000 200 1900 50 0 100 100\n",
    "pageable": "unsupported utilization throttle limits link processes\n",
    "checkpoint": "row 0 0 30 10 4000 200 1900 50 0 100 100\n",
}


@dataclass(frozen=True)
class Judged:
    """What came of one run."""

    code: int
    out: str
    err: str
    report: Mapping[str, Any]
    node: Mapping[str, Any]

    @property
    def rules(self) -> list[str]:
        return [finding["rule"] for finding in self.report["findings"]]

    @property
    def lost(self) -> float:
        """Return the part of the time in which the device waits for something that has a name."""
        return float(sum(self.report["summary"]["lost_shares"].values()))

    @property
    def verdict(self) -> str:
        return str(self.report["summary"]["verdict"])


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Mapping[str, Judged]:
    """Run each job on its machine, two at a time."""
    if why := fakegpu.missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("doubles")
    built = request.config.cache.mkdir("fakegpu")
    library = nvml.build(folder)
    build = f"import sys; sys.path.insert(0, {str(HERE.parent)!r}); from doubles import fakegpu; "
    build += f"from pathlib import Path; fakegpu.load(Path({str(built)!r}))"
    subprocess.run([sys.executable, "-c", build], check=True, capture_output=True)  # so that no two do it at once

    def run(name: str) -> Judged:
        scenario = folder / f"{name}.txt"
        scenario.write_text(MACHINES[name], "utf-8")
        what = "healthy" if name == "throttled" else name
        job = [sys.executable, HERE / "fake_jobs.py", what, HERE.parent / "doubles", built]
        double = nvml.environment(library, scenario)
        ran = subprocess.run(
            [sys.executable, "-m", "whyidle", "run", "--interval", "0.2", "-o", name, "--", *job],
            env=environment(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="0", NO_COLOR="1", COLUMNS="120", **double),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        report = folder / name / "report.json"
        (node,) = (folder / name).glob("node-*/node.json")
        return Judged(
            ran.returncode,
            ran.stdout,
            ran.stderr,
            json.loads(report.read_text("utf-8")) if report.exists() else {},
            json.loads(node.read_text("utf-8")),
        )

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(MACHINES, pool.map(run, MACHINES), strict=True))


def test_a_healthy_job_on_one_of_eight_gpus(judged: Mapping[str, Judged]) -> None:
    """Its waits for data are where the host happens to block: the device has work meanwhile."""
    one = judged["healthy"]
    assert one.report["summary"]["on_gpu"] is True
    assert one.lost < 0.1
    assert all(finding["severity"] == "low" for finding in one.report["findings"])
    assert one.verdict.startswith("The GPU hardly waits for data (") or one.verdict.startswith("Healthy: ")
    assert one.report["summary"]["utilization_mean_share"] == pytest.approx(0.97)  # of the one that it may use
    assert [gpu["visible"] for gpu in one.node["gpus"]] == [True] + [False] * 7
    assert one.report["run"]["gpus"] == [{"name": "NVIDIA H100 80GB HBM3", "count": 1}]


def test_a_gpu_that_slows_down_for_heat(judged: Mapping[str, Judged]) -> None:
    one = judged["throttled"]
    assert one.rules[0] == "hw.thermal"
    assert "throttled in 100% of the busy samples, at 91 °C, the median clock at 50% of its maximum" in one.err.replace(
        "\n             ", " "
    )


def test_a_device_that_waits_for_data(judged: Mapping[str, Judged]) -> None:
    one = judged["input_bound"]
    assert one.rules[0] == "input.workers_zero"
    assert one.report["summary"]["on_gpu"] is True
    assert 0.3 < one.report["summary"]["lost_shares"]["data_zero"] < 0.8  # half of 60 ms: the device works on for 30
    assert re.match(r"Each step waits for data \d\d% of the time, and the GPU idles in \d\d of these", one.verdict)


def test_without_nvml_the_report_says_so(judged: Mapping[str, Judged]) -> None:
    one = judged["input_bound"]
    assert (one.node["nvml"], one.node["gpus"]) == ("the NVIDIA driver is not loaded", [])
    assert "What else the GPU does was not measured." in one.verdict
    assert any(
        warning.endswith("no counters of the GPU, as NVML says: the NVIDIA driver is not loaded.")
        for warning in one.report["warnings"]
    )


def test_a_host_that_reads_every_loss_is_not_input_bound(judged: Mapping[str, Judged]) -> None:
    """The look at lines that wait is of CUDA alone; that the device idles NVML tells, and that it is not the data."""
    one = judged["sync_bound"]
    assert one.report["summary"]["on_gpu"] is True
    assert one.lost < 0.2
    assert "NVML saw kernels 33% of the time; what is left this recording does not explain." in one.verdict
    assert "--no-trace" not in one.verdict  # there was a trace
    assert "Healthy" not in one.verdict


def test_a_narrow_link_is_noted(judged: Mapping[str, Judged]) -> None:
    one = judged["sync_bound"]
    (gpu,) = one.node["gpus"]
    assert (gpu["pcie_width"], gpu["pcie_width_max"]) == (4, 16)


def test_copies_from_pageable_memory_are_no_wait_for_data(judged: Mapping[str, Judged]) -> None:
    one = judged["pageable"]
    assert one.report["summary"]["on_gpu"] is True
    shares = one.report["summary"]["host_shares"]
    assert max(shares, key=lambda name: shares[name]) == "prepare"  # between batch and forward: the copy
    assert one.lost < 0.2  # on a busy machine making a batch of 4 MB takes some of it
    assert "Healthy" not in one.verdict


def test_what_nvml_does_not_support_is_unknown(judged: Mapping[str, Judged]) -> None:
    one = judged["pageable"]
    (gpu,) = one.node["gpus"]
    assert (gpu["pcie_width"], gpu["power_limit_w"], gpu["sm_clock_max_mhz"]) == (None, None, None)
    assert one.report["summary"]["utilization_mean_share"] is None
    assert "What else the GPU does was not measured." in one.verdict


def test_a_pause_for_checkpoints(judged: Mapping[str, Judged]) -> None:
    one = judged["checkpoint"]
    assert one.rules[0] == "pause.checkpoint_sync"
    assert 0.4 < one.report["summary"]["lost_shares"]["save"] < 0.8  # 60 ms beside 30 of work
    assert "% of the time goes into writing checkpoints." in one.verdict


@pytest.mark.parametrize("name", MACHINES)
def test_the_job_is_as_without_us(judged: Mapping[str, Judged], name: str) -> None:
    one = judged[name]
    assert (one.code, one.out) == (0, "trained\n")
    assert "mistake" not in one.err
    assert one.report["summary"]["steps_from"] == "Optimizer.step"
