"""The table that plain `nvidia-smi` draws, once or again and again (`-l`, `watch`): a moment, or a curve."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.samples import CTIME, ISO, Samples, Subject, moment, number, text_of, warn_of_split

INTERVAL: Final = 2  # s: what watch takes where it is told nothing
MIB: Final = 1 << 20
LONGEST_LINE: Final = 512  # characters; the table is 91 wide
IN_USE: Final = 0.05  # of the memory; below that lies what the driver keeps for itself

HEAD: Final = re.compile(rb"\|\s*NVIDIA-SMI\s+\d")
SCREEN: Final = re.compile(r"\|\s*NVIDIA-SMI\s+\d")
GPU: Final = re.compile(
    r"\|\s*(\d{1,4})\s+(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+"
)
TEMPERATURE_AND_POWER: Final = re.compile(r"\s*\S+\s+(\S+)\s+(?:P\d+|N/A|ERR!|\?+)\s+(\S+)\s*/\s*(\S+)\s*$")
USED_OF_TOTAL: Final = re.compile(r"\s*(\S+)\s*/\s*(\S+)\s*$")
UTILIZATION: Final = re.compile(r"\s*(\d{1,3}\s*%|N/A|ERR!|\S+)\s")
INSTANCE: Final = re.compile(r"\|\s*(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+\d{1,4}\s*\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|")
PROCESS: Final = re.compile(r"\|\s*(\d{1,4})\s+(?:\S+\s+\S+\s+)?(\d{1,9})\s+(?:C|G|C\+G|M\+C|M)\s+\S.*\|\s*$")
END: Final = re.compile(r"\+-+\+\s*$")


@dataclass(slots=True)
class Screen:
    """One table: what it says of each GPU, and of each part of one that is split."""

    time: int | None = None  # ns since 1970, as its first line says
    names: dict[int, str] = field(default_factory=dict)
    values: dict[Subject, dict[str, float]] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)
    in_list: bool = False  # the list of processes has begun
    has_list: bool = False  # and it has ended


def screens(text: str) -> list[Screen]:
    """Return the tables of a text in their order; of one that is cut short what is there."""
    found: list[Screen] = []
    when: int | None = None
    device: int | None = None
    for line in (line[:LONGEST_LINE] for line in text.splitlines()):
        if SCREEN.search(line):
            found.append(Screen(when))
            when = device = None
        elif not line.startswith("|"):
            when = moment(line) if CTIME.search(line) or ISO.search(line) else when
            if found and found[-1].in_list and END.match(line):
                found[-1].has_list = True
        elif found:
            device = _line(line, found[-1], device)
    return found


def _line(line: str, screen: Screen, device: int | None) -> int | None:
    """Note what one line of a table says; return the GPU of which the next line tells more."""
    if "Processes:" in line:
        screen.in_list = True
    elif screen.in_list:
        if told := PROCESS.match(line):
            number_of = int(told.group(1))
            screen.processes[number_of] = screen.processes.get(number_of, 0) + 1
    elif told := INSTANCE.match(line):
        part = Subject("", int(told.group(1)), f"{told.group(2)}/{told.group(3)}")
        screen.values[part] = {
            "memory_used_bytes": float(told.group(4)) * MIB,
            "memory_total_bytes": float(told.group(5)) * MIB,
        }
    elif told := GPU.match(line):
        device = int(told.group(1))
        screen.names[device] = told.group(2)
        return device
    elif device is not None and (values := _state(line)):
        screen.values[Subject("", device)] = values
    return None


def _state(line: str) -> dict[str, float]:
    """Return what the second line of a GPU says; nothing if it is another line."""
    cells = line.split("|")[1:4]
    left = TEMPERATURE_AND_POWER.match(cells[0])
    if len(cells) < 3 or left is None or (right := UTILIZATION.match(cells[2])) is None:
        return {}
    temperature, power, limit = left.groups()
    memory = USED_OF_TOTAL.match(cells[1])
    used, total = memory.groups() if memory else ("", "")
    return {
        "utilization_percent": number(right.group(1)),
        "memory_used_bytes": number(used) * MIB,
        "memory_total_bytes": number(total) * MIB,
        "power_w": number(power),
        "power_limit_w": number(limit),
        "temperature_c": number(temperature),
    }


def _processes(screen: Screen, subject: Subject, values: dict[str, float]) -> float:
    """Return how many processes hold a GPU; NaN where the list cannot be believed: inside a container it is empty."""
    assert subject.device is not None
    count = screen.processes.get(subject.device, 0)
    in_use = values["memory_used_bytes"] > IN_USE * values["memory_total_bytes"] or values["utilization_percent"] > 0
    return math.nan if not screen.has_list or (not count and in_use) else float(count)


def add_screens(found: list[Screen], samples: Samples, path: Path) -> None:
    """Add what tables say, a sample per table."""
    moments = samples.moments([screen.time for screen in found], INTERVAL, "table", path)
    for screen, time in zip(found, moments, strict=True):
        for subject, values in screen.values.items():
            for name, value in values.items():
                samples.add(subject, name, time, value)
            if not subject.instance:
                samples.add(subject, "processes", time, _processes(screen, subject, values))
                if subject.device in screen.names and not screen.names[subject.device].endswith("..."):
                    samples.tell(subject, "name", screen.names[subject.device], "nvidia-smi")


def split_in(samples: Samples) -> list[int | None]:
    """Return the GPUs of which a table shows parts."""
    return list(dict.fromkeys(subject.device for subject in samples.subjects() if subject.instance))


class SmiScreen(Reader):
    """Plain `nvidia-smi`, of all layouts since 2015."""

    kind = "nvidia-smi screen"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader. A job's log may begin with such a table: then most of its lines are others."""
        if HEAD.search(head) is None:
            return False
        lines = [line for line in head.splitlines() if line.strip()]
        return sum(line.lstrip()[:1] in b"|+" for line in lines) * 2 >= len(lines)

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader."""
        samples = Samples()
        found = [screen for screen in screens(text_of(path, samples.warnings, progress)) if screen.values]
        if not found:
            raise UnreadableError(path, "a table of nvidia-smi without a GPU, or cut short.", damaged=True)
        add_screens(found, samples, path)
        warn_of_split(split_in(samples), samples, path)
        return samples.curve(path, self.kind)
