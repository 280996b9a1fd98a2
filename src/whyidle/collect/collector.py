"""Everything that is recorded beside a job, in one place that ticks.

Whoever waits for the job calls `tick` at least once a second. Nothing here may hold up the job or change how it ends:
what cannot be recorded is a warning in node.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whyidle._version import __version__
from whyidle.collect import host, nvml, procfs
from whyidle.collect import processes as process_tree
from whyidle.collect.asking import Asking
from whyidle.collect.counters import Table
from whyidle.collect.host import Host
from whyidle.collect.machine import machine
from whyidle.collect.mirror import Mirror
from whyidle.collect.missed import Missed, Watcher
from whyidle.collect.nvml import Gpus
from whyidle.collect.processes import Processes
from whyidle.collect.rings import Rings

DRAIN_S = 1.0  # a ring holds 65,536 records: seconds of the fastest loops
WATCH_S = 5.0  # between two looks for processes that are not captured
MOST_WARNINGS = 50
ANSWER_S = 2.0  # that a tick waits for the GPUs' driver: it may start slowly, or hang with a GPU that fell off its bus
NS_PER_S = 1_000_000_000


class Collector:
    """Records the counters of a job and drains its rings.

    Args:
        node_folder: of this machine in the run directory; it exists.
        capture_folder: where the job's processes write; the same, or a local one where the first is on a network.
        root_pid: the job's first process.
        interval_s: between two samples.
        gpus: ask NVML.
        command: of the job; read from its first process if it is not given.
        cwd: where it was started.
        options: what `whyidle run` was asked for, for the record.
        root: where the machine's files lie.
        clock: CLOCK_MONOTONIC, in ns.
        environ: of the job.
    """

    def __init__(
        self,
        node_folder: Path,
        capture_folder: Path,
        root_pid: int,
        interval_s: float = 1.0,
        gpus: bool = True,
        *,
        command: Sequence[str] = (),
        cwd: Path | None = None,
        options: Mapping[str, Any] | None = None,
        root: Path = Path("/"),
        clock: Callable[[], int] = time.perf_counter_ns,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self.not_captured: list[Missed] = []
        self._folder = node_folder
        self._clock = clock
        self._root = root
        self._interval_ns = max(1, round(interval_s * NS_PER_S))
        self._started = clock()
        self._looked = -1
        self._next_drain = self._next_sample = self._next_watch = self._started
        self._host = Host(root, _first_readable(root, root_pid))
        self._processes = Processes(root_pid, str(capture_folder), self.warn, root)
        self._gpus = Gpus(self.warn, root, environ) if gpus else None
        self._rings = Rings(capture_folder, node_folder, self.warn)
        self._mirror = Mirror(capture_folder, node_folder, self.warn)
        self._watcher = Watcher(capture_folder, root)
        self._host_table = Table(node_folder / "host.csv", host.COLUMNS, self.warn)
        self._process_table = Table(node_folder / "processes.csv", process_tree.COLUMNS, self.warn)
        self._gpu_table = Table(node_folder / "gpu.csv", nvml.COLUMNS, self.warn)
        self._ended: dict[str, int | None] | None = None
        self._asking: Asking | None = None
        self._written = ""
        self._facts = {
            "whyidle_run": 1,
            "whyidle": __version__,
            "host": socket.gethostname(),
            "command": list(command or procfs.command(root, root_pid)),
            "cwd": str(cwd or Path.cwd()),
            "clock": {"mono_ns": self._started, "wall_ns": time.time_ns()},
            "rings": None if capture_folder.resolve() == node_folder.resolve() else str(capture_folder),
            "options": dict(options or {}),
            "interval_s": interval_s,
            "machine": asdict(machine(root)),
        }

    def warn(self, text: str) -> None:
        """Note what could not be recorded, once."""
        if text not in self.warnings and len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)

    def start(self) -> None:
        """Write node.json, before anything is known of GPUs."""
        self._write_node()

    def remaining_s(self) -> float:
        """Return for how long there is nothing to do, in s."""
        return max(0.0, (min(self._next_drain, self._next_sample) - self._clock()) / NS_PER_S)

    def tick(self) -> None:
        """Do what is due; nothing if nothing is."""
        now = self._clock()
        if now >= self._next_drain:
            self._next_drain = _after(self._next_drain, round(DRAIN_S * NS_PER_S), now)
            self._look(now)
            self._rings.drain(self._processes.ended)
            self._mirror.copy()
        if now >= self._next_watch:
            self._next_watch = _after(self._next_watch, round(WATCH_S * NS_PER_S), now)
            age_s = (now - self._started) / NS_PER_S
            self.not_captured = self._watcher.look(self._processes.alive, self._rings.pids, age_s)
        if now >= self._next_sample:
            self._next_sample = _after(self._next_sample, self._interval_ns, now)
            self._sample(now)
        self._write_node()

    def _look(self, now: int) -> None:
        """Look at the job's processes, once at a time."""
        if self._looked != now:
            self._looked = now
            self._processes.look(now)

    def _sample(self, now: int) -> None:
        if self._host_table.due():
            self._host_table.write(now, [self._host.sample()])
        if self._process_table.due():
            self._look(now)
            self._process_table.write(now, self._processes.sample(self._rings.pids))
        if self._gpus is not None and self._gpu_table.due():
            self._ask(self._gpus, now)

    def _ask(self, gpus: Gpus, now: int) -> None:
        """Sample the GPUs, unless the driver has not answered the last time yet."""
        if self._asking is not None and self._asking.is_alive():
            return
        job = self._processes.pids()

        def ask() -> None:
            gpus.open(now / NS_PER_S)
            self._gpu_table.write(self._clock(), gpus.sample(job))

        self._asking = Asking(ask)
        self._asking.start()
        self._asking.wait(ANSWER_S)

    def close(self, exit_code: int | None = None, signal: int | None = None) -> None:
        """Drain everything a last time and note how the job ended.

        Args:
            exit_code: of the job's first process.
            signal: by which it was ended.
        """
        if self._ended is not None:
            return
        hangs = self._asking is not None and self._asking.is_alive()
        if hangs:
            self.warn("the GPU driver did not answer when the job ended")
        now = self._clock()
        self._ended = {"mono_ns": now, "exit_code": exit_code, "signal": signal}
        self._look(now)
        for _ in range(2):  # once to write everything on, once to see that nothing came after
            self._rings.drain(self._is_gone)
        self._mirror.copy(final=True)
        self._host_table.write(now, [self._host.sample()])
        if self._gpus is not None and not hangs:
            self._gpus.close()
        for table in (self._host_table, self._process_table, self._gpu_table):
            table.close()
        self._write_node()

    def _is_gone(self, pid: int) -> bool:
        return self._processes.ended(pid) or not (self._root / f"proc/{pid}").exists()

    def _write_node(self) -> None:
        """Replace node.json if anything in it has changed."""
        gpus = self._gpus
        node = {
            **self._facts,
            "gpus": gpus.facts() if gpus else [],
            "nvml": gpus.state if gpus else "not asked",
            "ended": self._ended,
            "not_captured": [asdict(missed) for missed in self.not_captured],
            "warnings": list(self.warnings),
        }
        text = json.dumps(node, indent=1, ensure_ascii=True)
        if text == self._written:
            return
        part = self._folder / f".node.json.{os.getpid()}"
        try:
            part.write_text(text + "\n", "utf-8")
            part.replace(self._folder / "node.json")
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            self.warn(f"node.json cannot be written: {error.strerror or error}")
            return
        self._written = text


def _after(due: int, interval: int, now: int) -> int:
    """Return the next moment of a regular series that is not over yet: what was missed is not made up for."""
    return due + interval * ((now - due) // interval + 1)


def _first_readable(root: Path, root_pid: int) -> int | str:
    """Return the process whose control group counts: the job's first, or, where that has ended already, this one."""
    return root_pid if (root / f"proc/{root_pid}/cgroup").exists() else "self"
