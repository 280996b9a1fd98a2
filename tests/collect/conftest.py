"""What the tests of the collector share: a stand-in for NVML, made-up machines, rings as the contract has them."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doubles import nvml as double

Scenario = Callable[[str], dict[str, str]]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return double.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml_stub(nvml_library: Path, tmp_path: Path) -> Scenario:
    """Return a function that takes a scenario and returns what a process needs in its environment to play it."""

    def environment(scenario: str) -> dict[str, str]:
        path = tmp_path / "scenario.txt"
        path.write_text(scenario)
        return double.environment(nvml_library, path)

    return environment


@pytest.fixture
def play(nvml_library: Path, nvml_stub: Scenario, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that lets this process itself see a scenario."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

    def see(scenario: str) -> None:
        monkeypatch.setenv("NVML_STUB_SCENARIO", nvml_stub(scenario)["NVML_STUB_SCENARIO"])
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    return see


Tree = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a function that makes files of a machine: {"proc/stat": text}; returns the root."""
    root = tmp_path / "machine"

    def make(files: dict[str, str | bytes]) -> Path:
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return make


def process(
    pid: int,
    parent: int = 1,
    name: str = "python",
    *,
    cpu_ticks: int = 1000,
    started: int = 5,
    state: str = "S",
    command: str = "python train.py",
    environ: str = "",
    blocked_ticks: int = 0,
) -> dict[str, str | bytes]:
    """Return the files of a process, for `tree`."""
    words = [state, parent, *[0] * 7, 6, 0, cpu_ticks, 0, 0, 0, 20, 0, 3, 0, started, 0, 100, *[0] * 17, blocked_ticks]
    return {
        f"proc/{pid}/stat": f"{pid} ({name}) {' '.join(map(str, words))}\n",
        f"proc/{pid}/cmdline": command.replace(" ", "\0") + "\0",
        f"proc/{pid}/environ": environ.replace(" ", "\0"),
        f"proc/{pid}/schedstat": "2500000000 500000000 77\n",
        f"proc/{pid}/io": "rchar: 900\nwchar: 1\nread_bytes: 512\nwrite_bytes: 4096\n",
        f"proc/{pid}/status": "Name:\tx\nCpus_allowed_list:\t0-3\n",
    }


class RingWriter:
    """Writes a ring as the contract has it, a step at a time, so that a test can look in between."""

    def __init__(self, path: Path, capacity: int = 16, written: int = 0) -> None:
        self.path = path
        self.capacity = capacity
        self.written = written
        self.json = b""
        path.write_bytes(b"\0" * (4096 + capacity * 32))
        self.describe({"version": 1, "pid": 7, "rank": None})

    def describe(self, facts: dict[str, object]) -> None:
        self.json = json.dumps(facts).encode()
        self._put(0, struct.pack("<8sQI4xI4x", b"WHYIDLE1", self.written, self.capacity, len(self.json)) + self.json)

    def record(self, index: int) -> bytes:
        return struct.pack("<BBHIqqq", 2, 0, 9, index % 2**32, index * 10, 5, index)

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            self.tear(32)
            self.written += 1
            self._put(8, struct.pack("<Q", self.written))

    def tear(self, size: int) -> None:
        """Write only the first bytes of the next record, as a process that is killed or not done yet."""
        slot = self.written % self.capacity
        self._put(4096 + slot * 32, self.record(self.written)[:size])

    def skip(self) -> None:
        """Count a record that another thread has not written yet."""
        self.written += 1
        self._put(8, struct.pack("<Q", self.written))

    def fill(self, index: int) -> None:
        """Write a record that was skipped."""
        self._put(4096 + index % self.capacity * 32, self.record(index))

    def _put(self, offset: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)
