"""`nvidia-smi -q`: an outline of everything that the driver knows of its GPUs, at a moment or again and again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.samples import Samples, Subject, moment, number, text_of, warn_of_split

INTERVAL: Final = 5  # s: `nvidia-smi -q -l` without a number
LONGEST_LINE: Final = 512  # characters
MIB: Final = 1 << 20
HEAD: Final = re.compile(rb"=+NVSMI LOG=+")
START: Final = re.compile(r"=+NVSMI LOG=+")
GPU: Final = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+\s*$")
LINE: Final = re.compile(r"( *)(\S[^:]*?) *(?:: ?(.*))?$")

# The section and the line of it; what that is as a series, and by what its value is multiplied. Names differ by driver.
LINES: Final[Mapping[tuple[str, str], tuple[str, float]]] = {
    ("Utilization", "Gpu"): ("utilization_percent", 1),
    ("Utilization", "GPU"): ("utilization_percent", 1),
    ("Utilization", "Memory"): ("memory_utilization_percent", 1),
    ("Utilization", "Encoder"): ("encoder_percent", 1),
    ("Utilization", "Decoder"): ("decoder_percent", 1),
    ("FB Memory Usage", "Used"): ("memory_used_bytes", MIB),
    ("FB Memory Usage", "Total"): ("memory_total_bytes", MIB),
    ("Temperature", "GPU Current Temp"): ("temperature_c", 1),
    ("Power Readings", "Power Draw"): ("power_w", 1),
    ("Power Readings", "Enforced Power Limit"): ("power_limit_w", 1),
    ("GPU Power Readings", "Power Draw"): ("power_w", 1),
    ("GPU Power Readings", "Average Power Draw"): ("power_w", 1),
    ("GPU Power Readings", "Current Power Limit"): ("power_limit_w", 1),
    ("Clocks", "SM"): ("sm_clock_mhz", 1),
    ("Max Clocks", "SM"): ("sm_clock_max_mhz", 1),
}
REASONS: Final = ("Clocks Event Reasons", "Clocks Throttle Reasons")
BITS: Final[Mapping[str, int]] = {  # nvml.h, nvmlClocksEventReason*
    "Idle": 0x1,
    "Applications Clocks Setting": 0x2,
    "SW Power Cap": 0x4,
    "HW Slowdown": 0x8,
    "Sync Boost": 0x10,
    "SW Thermal Slowdown": 0x20,
    "HW Thermal Slowdown": 0x40,
    "HW Power Brake Slowdown": 0x80,
    "Display Clock Setting": 0x100,
}


@dataclass(slots=True)
class Log:
    """One outline: what it says of each GPU, in their order."""

    time: int | None = None  # ns since 1970
    names: dict[int, str] = field(default_factory=dict)
    split: set[int] = field(default_factory=set)
    values: dict[int, dict[str, float]] = field(default_factory=dict)


def logs(text: str) -> list[Log]:
    """Return the outlines of a text in their order; of one that is cut short what is there."""
    found: list[Log] = []
    device = -1
    path: list[tuple[int, str]] = []  # the sections around a line, and how far each is indented
    for line in (line[:LONGEST_LINE] for line in text.splitlines()):
        if START.search(line):
            found.append(Log())
            device, path = -1, []
        elif not found or (told := LINE.match(line)) is None:
            continue
        elif GPU.match(line):
            device += 1
            path = []
        else:
            indent, name, value = len(told.group(1)), told.group(2), told.group(3)
            while path and path[-1][0] >= indent:
                path.pop()
            if value is None:
                path.append((indent, name))
            elif device < 0:
                found[-1].time = moment(value) if name == "Timestamp" else found[-1].time
            else:
                _value(found[-1], device, [section for _, section in path], name, value)
            if value is not None and any(section in REASONS for _, section in path):
                path.append((indent, name))  # HW Slowdown has a value and lines below it
    return found


def _value(log: Log, device: int, sections: list[str], name: str, value: str) -> None:
    values = log.values.setdefault(device, {})
    section = sections[-1] if sections else ""
    if known := LINES.get((section, name)):
        values[known[0]] = number(value) * known[1]
    elif name in BITS and any(reason in sections for reason in REASONS):
        if value.strip() in ("Active", "Not Active"):
            values["throttle_reasons"] = values.get("throttle_reasons", 0) + BITS[name] * (value.strip() == "Active")
    elif name == "Product Name":
        log.names[device] = value.strip()
    elif section == "MIG Mode" and name == "Current" and value.strip() == "Enabled":
        log.split.add(device)
    elif section == "Processes" and name == "Process ID":
        values["processes"] = values.get("processes", 0) + 1


def add_logs(found: list[Log], samples: Samples, path: Path) -> None:
    """Add what outlines say, a sample per outline."""
    moments = samples.moments([log.time for log in found], INTERVAL, "sample", path)
    for log, time in zip(found, moments, strict=True):
        for device, values in log.values.items():
            subject = Subject("", device)
            for name, value in values.items():
                samples.add(subject, name, time, value)
            if name := log.names.get(device, ""):
                samples.tell(subject, "name", name, "nvidia-smi -q")
    warn_of_split(sorted(set().union(*(log.split for log in found))), samples, path)


class SmiLog(Reader):
    """`nvidia-smi -q`, whole or by sections (`-d UTILIZATION`)."""

    kind = "nvidia-smi -q"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return HEAD.search(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. GPUs are numbered in the order in which they are listed, as nvidia-smi does."""
        samples = Samples()
        found = [log for log in logs(text_of(path, samples.warnings, progress)) if any(log.values.values())]
        if not found:
            raise UnreadableError(path, "nvidia-smi -q without a counter of a GPU, or cut short.", damaged=True)
        add_logs(found, samples, path)
        return samples.curve(path, self.kind)
