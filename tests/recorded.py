"""Run directories as `whyidle run` would have written them, made by tests from a few words. Independent of src.

A `Process` is a script: each call adds one record and moves its clock on. Times are in ms.
"""

from __future__ import annotations

import json
import struct
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BATCH, STEP, FORWARD, BACKWARD, SAVE, ITERATE, SCALE, PROFILE, COLLECT, GPU, WATCH, RANGE, COUNT, ENVIRONMENT = range(
    1, 15
)
MS = 1_000_000
BEGAN = 5_000_000_000_000  # ns: a machine's clock does not begin with the job
WALL = 1_700_000_000_000_000_000
TRAINS = 3  # flags of a forward pass: in training mode, with gradients
MAIN, OTHER = 7, 9


@dataclass
class Process:
    """One process of a job, and the records that it writes."""

    rank: int | None = 0
    pid: int = 4000
    world_size: int | None = 1
    restart: int | None = None
    began: int = BEGAN
    now: float = 0.0  # ms since it began
    thread: int = MAIN
    records: list = field(default_factory=list)  # kind, flags, thread, start ns, duration ns, value
    settings: list = field(default_factory=list)
    loaders: list = field(default_factory=list)
    workers: dict = field(default_factory=dict)  # (loader, worker): what its file says
    facts: dict = field(default_factory=dict)  # further sections

    @property
    def identity(self):
        return f"{self.pid}-{(WALL + self.began) // MS}"

    def put(self, kind, took=0.0, value=0, flags=0, at=None):
        """Add a record that begins now, or at `at`; it moves the clock only if it begins now. Returns its sequence."""
        start = self.now if at is None else at
        self.records.append((kind, flags, self.thread, self.began + round(start * MS), round(took * MS), value))
        if at is None:
            self.now += took
        return len(self.records) - 1

    def wait(self, took):
        self.now += took
        return self

    @contextmanager
    def around(self, kind, value=0, flags=0):
        """Add a record around those that are added inside."""
        start = self.now
        yield
        self.put(kind, self.now - start, value, flags, at=start)

    def batch(self, took, *, loader=0, samples=32, tokens=0, workers=False, end=False, idle=None, computed=None):
        """Add a wait for a batch; `idle`: of its GPU meanwhile, ms; `computed`: part of it that the thread computed."""
        value = loader << 56 | samples << 32 | tokens
        told = 0 if computed is None else 1 + round(computed * 62) << 2
        sequence = self.put(BATCH, took, value, (2 if workers else 0) | (1 if end else 0) | told)
        if idle is not None:
            self.put(GPU, idle, sequence, at=self.now)

    def iterate(self, took, *, loader=0, workers=0):
        self.put(ITERATE, took, loader << 56 | workers, 2 if workers else 0)

    def forward(self, took, *, module=0, flags=TRAINS):
        self.put(FORWARD, took, module, flags)

    def backward(self, took):
        self.put(BACKWARD, took)

    def step(self, took, optimizer=0):
        self.put(STEP, took, optimizer)

    def save(self, took, size=1 << 20, idle=None):
        sequence = self.put(SAVE, took, size)
        if idle is not None:
            self.put(GPU, idle, sequence, at=self.now)
        return self

    def count(self, counter, value, at=None):
        self.put(COUNT, 0, value, counter, at=self.now if at is None else at)

    def train(self, steps, *, data=10, prepare=1, forward=20, backward=30, optimizer=5, other=4, idle=None, **batch):
        """Add steps of a plain loop."""
        for _ in range(steps):
            self.batch(data, idle=idle, **batch)
            self.wait(prepare)
            self.forward(forward)
            self.backward(backward)
            self.step(optimizer)
            self.wait(other)
        return self

    def evaluate(self, batches, *, data=5, forward=10, metrics=2, loader=1, **batch):
        """Add a plain loop of evaluation."""
        for _ in range(batches):
            self.batch(data, loader=loader, **batch)
            self.forward(forward, flags=0)
            self.wait(metrics)
        return self

    def setting(self, name, value, where="train.py:1", subject=""):
        self.settings.append({"name": name, "value": value, "where": where, "subject": subject})
        return self

    def header(self):
        told = {
            "version": 1, "pid": self.pid, "parent_pid": 1, "start_ns": self.began, "wall_ns": WALL + self.began,
            "argv": ["train.py"], "python": "3.11.7", "rank": self.rank, "local_rank": self.rank,
            "world_size": self.world_size, "restart": self.restart, "node": None,
        }  # fmt: skip
        return json.dumps(told).encode()

    def packed(self, index):
        kind, flags, thread, start, duration, value = self.records[index]
        value = value - (1 << 64) if value >= 1 << 63 else value
        return struct.pack("<BBHIqqq", kind, flags, thread, index & 0xFFFFFFFF, start, duration, value)

    def ring(self, capacity=65_536):
        """Return the process's ring with the last of its records."""
        header = self.header()
        head = b"WHYIDLE1" + struct.pack("<QI4xI4x", len(self.records), capacity, len(header)) + header
        slots = bytearray(capacity * 32)
        for index in range(max(len(self.records) - capacity, 0), len(self.records)):
            place = index % capacity * 32
            slots[place : place + 32] = self.packed(index)
        return head.ljust(4096, b"\0") + bytes(slots)

    def events(self, low=0, high=None):
        """Return what was drained of these records."""
        header = self.header()
        head = b"WHYIDLE1" + struct.pack("<QI4xI4x", 0, 0, len(header)) + header
        chosen = range(low, len(self.records) if high is None else high)
        return head.ljust(4096, b"\0") + b"".join(map(self.packed, chosen))

    def write(self, folder: Path):
        """Write the process's files: what was drained, and what it was set to."""
        (folder / f"{self.identity}.events").write_bytes(self.events())
        facts = {
            "version": 1, "pid": self.pid, "rank": self.rank, "worker_of": None, "settings": self.settings,
            "loaders": self.loaders, "syncs": None, "profile": None, "dynamo": None, "errors": 0, **self.facts,
        }  # fmt: skip
        (folder / f"{self.identity}.facts.json").write_text(json.dumps(facts))
        for (loader, worker), told in self.workers.items():
            content = {"version": 1, "pid": self.pid + worker + 1, "loader": loader, "worker": worker, **told}
            (folder / f"{self.identity}.worker-{loader}-{'main' if worker < 0 else worker}.json").write_text(
                json.dumps(content)
            )


@dataclass
class Machine:
    """A node folder."""

    host: str = "box"
    processes: list = field(default_factory=list)
    gpus: list = field(default_factory=list)
    told: dict = field(default_factory=dict)  # what else node.json says
    csv: dict = field(default_factory=dict)  # file: (columns, rows)

    def write(self, run: Path) -> Path:
        folder = run / f"node-{self.host}"
        folder.mkdir(parents=True, exist_ok=True)
        node = {
            "whyidle_run": 1, "whyidle": "0", "host": self.host, "command": ["python", "train.py"], "cwd": "/",
            "clock": {"mono_ns": BEGAN - 3000 * MS, "wall_ns": WALL + BEGAN - 3000 * MS}, "rings": None,
            "options": {}, "interval_s": 1.0,
            "machine": {
                "cpus": 8, "cpus_allowed": list(range(8)), "cpu_quota": None, "quota_from": None,
                "memory_bytes": 1 << 34, "numa_nodes": 1, "kernel": "6.1", "container": False,
            },
            "gpus": self.gpus, "nvml": "ok" if self.gpus else "no NVIDIA driver",
            "ended": {"mono_ns": BEGAN + 10**12, "exit_code": 0, "signal": None}, "not_captured": [], "warnings": [],
            **self.told,
        }  # fmt: skip
        (folder / "node.json").write_text(json.dumps(node))
        for process in self.processes:
            process.write(folder)
        for name, (columns, rows) in self.csv.items():
            lines = [",".join(columns), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
            (folder / name).write_text("\n".join(lines) + "\n")
        return folder


GPU_OF_MACHINE = {
    "index": 0, "name": "NVIDIA A100-SXM4-80GB", "uuid": "GPU-0", "memory_bytes": 80 << 30, "pcie_generation": 4,
    "pcie_width": 16, "pcie_generation_max": 4, "pcie_width_max": 16, "power_limit_w": 400,
    "power_limit_default_w": 400, "sm_clock_max_mhz": 1410, "numa_node": 0,
}  # fmt: skip


def run_directory(path: Path, *processes: Process, **machine) -> Path:
    """Write a run directory of one machine and return its path."""
    Machine(processes=list(processes), **machine).write(path)
    return path


def shares(values, *names):
    """Return the shares of these phases, rounded."""
    return [round(values[f"host_{name}_share"], 3) for name in names]
