"""GPUs through nvidia-smi, where its library cannot be loaded: a process per tick, so dearer than NVML."""

from __future__ import annotations

import csv
import math
import shutil
import subprocess
from collections.abc import Iterator

from whyidle.collect.nvml import Occupant
from whyidle.watch.reading import Gpu, Reading, Sample

FIELDS = (
    *("index", "uuid", "name", "memory.total", "clocks.max.sm", "power.limit", "mig.mode.current"),
    *("utilization.gpu", "utilization.memory", "memory.used", "power.draw", "clocks.sm", "temperature.gpu"),
    "clocks_throttle_reasons.active",  # its name up to driver 535, which newer ones still take
)
ANSWER_S = 2.0
PROCESSES_S = 10.0  # between two looks at the processes, each of which is a process, too
MIB = 1 << 20


class Smi:
    """The machine's GPUs as nvidia-smi shows them.

    Args:
        program: its path.
    """

    name = "nvidia-smi"

    def __init__(self, program: str) -> None:
        self._program = program
        self._known: dict[str, Gpu] = {}
        self._occupants: dict[str, tuple[Occupant, ...]] | None = None
        self._next_s = -math.inf

    @classmethod
    def found(cls) -> Smi | None:
        """Return it where there is one."""
        program = shutil.which("nvidia-smi")
        return None if program is None else cls(program)

    def sample(self, now_s: float) -> Sample:
        """Ask it once."""
        out = self._ask(f"--query-gpu={','.join(FIELDS)}")
        if isinstance(out, Sample):
            return out
        if now_s >= self._next_s:
            self._next_s = now_s + PROCESSES_S
            apps = self._ask("--query-compute-apps=gpu_uuid,pid,used_gpu_memory")
            self._occupants = None if isinstance(apps, Sample) else occupants(apps)
        readings = {}
        for row in rows(out, len(FIELDS)):
            told = dict(zip(FIELDS, row, strict=True))
            index = _number(told["index"])
            if index is None:
                continue
            gpu = _gpu(int(index), told)
            self._known[gpu.key] = gpu
            readings[gpu.key] = _reading(told, self._on(gpu))
        state = "ok" if readings else "nvidia-smi shows no GPU"
        return Sample(state, tuple(self._known.values()), readings)

    def _on(self, gpu: Gpu) -> tuple[Occupant, ...] | None:
        """Return who is on a GPU; nobody is taken for unknown: in a container nvidia-smi hides the processes."""
        return None if self._occupants is None else self._occupants.get(gpu.uuid)

    def _ask(self, query: str) -> str | Sample:
        """Return what nvidia-smi writes, or a sample that says why nothing is known."""
        known = tuple(self._known.values())
        command = [self._program, query, "--format=csv,noheader,nounits"]
        try:
            run = subprocess.run(  # noqa: S603  found on the user's PATH
                command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False
            )
        except subprocess.TimeoutExpired:
            return Sample("nvidia-smi does not answer", known)
        except OSError as error:
            return Sample(f"nvidia-smi cannot be started: {error.strerror}", known)
        if run.returncode:
            said = (run.stdout + run.stderr).strip().partition("\n")[0][:200]
            return Sample(f"nvidia-smi: {said or f'exit code {run.returncode}'}", known)
        return run.stdout

    def close(self) -> None:
        """Do nothing: it holds nothing."""


def rows(text: str, width: int) -> Iterator[list[str]]:
    """Yield the lines of a CSV that have so many cells."""
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) == width:
            yield [cell.strip() for cell in row]


def occupants(text: str) -> dict[str, tuple[Occupant, ...]]:
    """Return the processes by uuid of their GPU."""
    found: dict[str, tuple[Occupant, ...]] = {}
    for uuid, pid, memory in rows(text, 3):
        number, held = _number(pid), _scaled(memory, MIB)
        if number is not None:
            found[uuid] = (*found.get(uuid, ()), Occupant(int(number), None if held is None else int(held)))
    return found


def _gpu(index: int, told: dict[str, str]) -> Gpu:
    memory = _scaled(told["memory.total"], MIB)
    return Gpu(
        index,
        told["uuid"],
        told["name"],
        None if memory is None else int(memory),
        _number(told["clocks.max.sm"]),
        _number(told["power.limit"]),
        told["mig.mode.current"] == "Enabled",
    )


def _reading(told: dict[str, str], on_it: tuple[Occupant, ...] | None) -> Reading:
    try:
        reasons = int(told["clocks_throttle_reasons.active"], 16)
    except ValueError:
        reasons = None
    return Reading(
        _number(told["utilization.gpu"]),
        _number(told["utilization.memory"]),
        _scaled(told["memory.used"], MIB),
        _number(told["power.draw"]),
        _number(told["clocks.sm"]),
        _number(told["temperature.gpu"]),
        reasons,
        on_it,
    )


def _number(cell: str) -> float | None:
    """Return what a cell says; None for "[N/A]", "[Not Supported]" and whatever is no number."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _scaled(cell: str, unit: int) -> float | None:
    number = _number(cell)
    return None if number is None else number * unit
