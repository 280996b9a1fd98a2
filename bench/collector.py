"""What the collector costs the machine that it watches: CPU time per second, beside a job of 40 processes on 8 GPUs.

Run it with `python bench/collector.py`. The GPUs are played by the stand-in of tests/doubles/nvml, so that what NVML
itself costs is not in it; the processes are real (Linux only): 8 with a ring, 32 with the name of a loader's worker.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path

import pynvml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.doubles.nvml import build, environment  # noqa: E402
from whyidle.collect.collector import Collector  # noqa: E402

RANKS = 8
WORKERS_PER_RANK = 4
GPUS = 8
RECORDS_PER_S = 600  # of each rank: a hundred steps a second, six records in each
SECONDS = 120
RING_CAPACITY = 65_536


def start_processes() -> list[int]:
    """Return 40 processes that wait; the first 8 are ranks."""
    pids = []
    for number in range(RANKS * (1 + WORKERS_PER_RANK)):
        pid = os.fork()
        if pid == 0:
            name = "pt_main_thread" if number < RANKS else "pt_data_worker"
            Path("/proc/self/comm").write_text(name)
            signal.pause()
            os._exit(0)
        pids.append(pid)
    return pids


class Ring:
    """A ring that a rank would write."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w+b")
        self.file.truncate(4096 + RING_CAPACITY * 32)
        facts = json.dumps({"version": 1}).encode()
        self.file.write(struct.pack("<8sQI4xI4x", b"WHYIDLE1", 0, RING_CAPACITY, len(facts)) + facts)
        self.written = 0

    def write(self, count: int) -> None:
        for index in range(self.written, self.written + count):
            self.file.seek(4096 + index % RING_CAPACITY * 32)
            self.file.write(struct.pack("<BBHIqqq", 2, 0, 1, index % 2**32, index, 1, 0))
        self.written += count
        self.file.seek(8)
        self.file.write(struct.pack("<Q", self.written))
        self.file.flush()


def play_gpus(folder: Path) -> None:
    """Let NVML in this process see 8 busy GPUs."""
    lines = [f"gpus {GPUS}"]
    lines += [
        f"row 0 {gpu} 90 40 60000 600 1700 60 0 5000 900\nprocess 0 {gpu} {os.getpid()} 50000" for gpu in range(GPUS)
    ]
    scenario = folder / "scenario.txt"
    scenario.write_text("\n".join(lines) + "\n")
    library = build(folder)
    os.environ.update(environment(library, scenario))
    pynvml.nvmlLib = ctypes.CDLL(str(library))


def main() -> None:
    now = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        play_gpus(folder)
        pids = start_processes()
        try:
            rings = [Ring(folder / f"{pid}-1.ring") for pid in pids[:RANKS]]
            collector = Collector(folder, folder, os.getpid(), clock=lambda: now)
            collector.start()
            collector.tick()
            spent = []
            for second in range(SECONDS):
                now = (second + 1) * 1_000_000_000
                for ring in rings:
                    ring.write(RECORDS_PER_S)
                before = time.process_time()
                collector.tick()
                spent.append(time.process_time() - before)
            collector.close(0)
            written = {path.name: path.stat().st_size for path in folder.glob("*.csv")}
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    spent.sort()
    machine = sum(path.name.isdecimal() for path in Path("/proc").iterdir())
    print(
        f"{len(pids)} processes of the job, {machine} more on the machine, {GPUS} GPUs, "
        f"{RANKS} x {RECORDS_PER_S} records per second"
    )
    print(f"CPU per tick: median {spent[len(spent) // 2] * 1e3:.1f} ms, worst of {SECONDS} {spent[-1] * 1e3:.1f} ms")
    for file, size in sorted(written.items()):
        print(f"{file}: {size / (SECONDS + 1):.0f} bytes per sample")


if __name__ == "__main__":
    main()
