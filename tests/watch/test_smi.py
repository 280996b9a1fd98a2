"""nvidia-smi in place of NVML, played by a script."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from whyidle.collect.nvml import Occupant
from whyidle.watch import driver, smi
from whyidle.watch.smi import Smi, occupants

GPUS = """\
0, GPU-a, NVIDIA H100 80GB HBM3, 81559, 1980, 700.00, Disabled, 87, 41, 40000, 601.23, 1755, 66, 0x0000000000000020
1, GPU-b, "NVIDIA, odd", 81559, [N/A], [N/A], Enabled, [N/A], [N/A], 0, [Not Supported], 210, 35, [N/A]
"""
APPS = "GPU-a, 17, 39000\nGPU-a, 18, [N/A]\n"
Script = Callable[..., Smi]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def make(gpus: str = GPUS, apps: str = APPS, code: int = 0, first: str = "") -> Smi:
        (tmp_path / "gpus").write_text(gpus)
        (tmp_path / "apps").write_text(apps)
        program = tmp_path / "nvidia-smi"
        program.write_text(
            f"#!/bin/sh\n{first}\ncase $1 in --query-gpu*) cat {tmp_path}/gpus;; *) cat {tmp_path}/apps;; esac\n"
            f"exit {code}\n"
        )
        program.chmod(0o755)
        return Smi(str(program))

    return make


def test_gpus_and_their_processes(script: Script) -> None:
    sample = script().sample(0.0)
    assert sample.state == "ok"
    first, second = sample.gpus
    busy, split = sample.of(first), sample.of(second)
    assert busy is not None
    assert (busy.utilization_percent, busy.memory_used_bytes, busy.throttle_reasons) == (87, 40000 << 20, 0x20)
    assert busy.occupants == (Occupant(17, 39000 << 20), Occupant(18, None))
    assert split is not None
    assert (second.name, second.mig) == ("NVIDIA, odd", True)
    assert (split.utilization_percent, split.power_w, split.throttle_reasons) == (None, None, None)


def test_nobody_listed_is_unknown_and_not_nobody(script: Script) -> None:
    """In a container nvidia-smi shows no processes."""
    sample = script(apps="").sample(0.0)
    assert sample.readings is not None
    assert sample.readings["GPU-a"].occupants is None
    assert sample.readings["GPU-a"].held is True


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"gpus": ""}, "nvidia-smi shows no GPU"),
        ({"gpus": "garbage\n1,2\n"}, "nvidia-smi shows no GPU"),
        ({"gpus": "Unable to determine the device handle\nx", "code": 15}, "nvidia-smi: Unable to determine"),
        ({"gpus": "", "code": 9}, "nvidia-smi: exit code 9"),
    ],
)
def test_what_fails_is_said(script: Script, told: dict[str, object], state: str) -> None:
    sample = script(**told).sample(0.0)
    assert sample.state.startswith(state)
    assert not sample.readings


def test_it_hangs(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smi, "ANSWER_S", 0.2)
    assert script(first="exec sleep 30").sample(0.0).state == "nvidia-smi does not answer"


def test_it_is_not_there(tmp_path: Path) -> None:
    assert Smi(str(tmp_path / "none")).sample(0.0).state.startswith("nvidia-smi cannot be started")


def test_it_is_asked_where_the_library_is_missing(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    found = script()
    monkeypatch.setenv("PATH", str(Path(found._program).parent), prepend=":")
    monkeypatch.setattr(driver.Driver, "sample", lambda self, now_s: driver.Sample("no library"))
    assert driver.find(0.0).name == "nvidia-smi"


def test_lines_of_another_shape_are_left_out() -> None:
    assert occupants("No running processes found\nGPU-a, 17, 1, 2\nGPU-a, x, 3\n") == {}
