"""`dcgmi dmon` as it prints: a line of short names, then a line per GPU and sample, without a time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.samples import SECOND, Samples, Subject, moment, number, text_of

HEADER: Final = re.compile(r"#\s*Entity\s+(.+)", re.IGNORECASE)
HEAD: Final = re.compile(rb"(?:^|\n)[^\n]{0,64}#\s*Entity\s+[A-Z]", re.IGNORECASE)
ROW: Final = re.compile(r"(.*?)\b(GPU|GPU-I|GPU-CI)[ :]+(\d{1,5})\s+(.*)")
INTERVAL: Final = 1  # s: dcgmi dmon --delay, unless it is told otherwise
LONGEST_LINE: Final = 4096  # characters
MIB: Final = 1 << 20

# Short names as DCGM's dcgm_fields.cpp gives them; what they are as a series, and by what the value is multiplied.
COLUMNS: Final[Mapping[str, tuple[str, float]]] = {
    "GPUTL": ("utilization_percent", 1),
    "MCUTL": ("memory_utilization_percent", 1),
    "ECUTL": ("encoder_percent", 1),
    "DCUTL": ("decoder_percent", 1),
    "FBUSD": ("memory_used_bytes", MIB),
    "FBTTL": ("memory_total_bytes", MIB),
    "POWER": ("power_w", 1),
    "PMLMT": ("power_limit_w", 1),
    "TOTEC": ("energy_j", 1e-3),
    "SMCLK": ("sm_clock_mhz", 1),
    "SMMAX": ("sm_clock_max_mhz", 1),
    "TMPTR": ("temperature_c", 1),
    "DVCCTR": ("throttle_reasons", 1),
    "GRACT": ("graphics_active_share", 1),
    "SMACT": ("sm_active_share", 1),
    "SMOCC": ("sm_occupancy_share", 1),
    "TENSO": ("tensor_active_share", 1),
    "DRAMA": ("dram_active_share", 1),
    "FP64A": ("fp64_active_share", 1),
    "FP32A": ("fp32_active_share", 1),
    "FP16A": ("fp16_active_share", 1),
    "PCITX": ("pcie_tx_bytes_per_s", 1),
    "PCIRX": ("pcie_rx_bytes_per_s", 1),
    "NVLTX": ("nvlink_tx_bytes_per_s", 1),
    "NVLRX": ("nvlink_rx_bytes_per_s", 1),
}


NOT_OF_A_PART: Final = ("GPUTL", "MCUTL")  # NVML has none for a GPU that is split: a 0 there is no measurement


class DcgmiDmon(Reader):
    """What `dcgmi dmon` printed; a time that something else put in front of each line is used."""

    kind = "dcgmi dmon"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return HEAD.search(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. Without times a sample is taken as one second after the one before."""
        samples = Samples()
        table = _Table(samples)
        for line in (line[:LONGEST_LINE] for line in text_of(path, samples.warnings, progress).splitlines()):
            if told := HEADER.search(line):
                table.names = told.group(1).split()
            elif row := ROW.match(line):
                table.take(moment(row.group(1)), row.group(2), int(row.group(3)), row.group(4).split())
        if not samples.subjects():
            raise UnreadableError(path, "dcgmi dmon, without a sample of a counter that whyidle knows.", damaged=True)
        if table.timed not in (0, table.rows):
            raise UnreadableError(path, "of its samples some have a time and some have none.", damaged=True)
        if table.broken:
            samples.warnings.append(f"{path}: {table.broken:,} lines do not fit the names above and are left out.")
        if not table.timed:
            samples.clock = "assumed"
            samples.warnings.append(f"{path}: it tells no time: its samples are taken as {INTERVAL} s apart (--delay).")
        return samples.curve(path, self.kind)


@dataclass(slots=True)
class _Table:
    """Rows under the last line of names."""

    samples: Samples
    names: list[str] = field(default_factory=list)
    rounds: dict[Subject, int] = field(default_factory=dict)  # samples of each GPU
    whole: int | None = None  # the GPU whose parts follow
    rows: int = 0
    timed: int = 0  # of them with a time
    broken: int = 0

    def take(self, when: int | None, entity: str, index: int, cells: list[str]) -> None:
        """Note a row: `GPU 0`, `GPU-I 3` (an instance of the GPU above it), and a cell for each name."""
        if len(cells) != len(self.names):
            self.broken += 1
            return
        self.whole = index if entity == "GPU" else self.whole
        subject = Subject("", self.whole, "" if entity == "GPU" else f"{entity} {index}")
        sample = self.rounds[subject] = self.rounds.get(subject, -1) + 1
        self.rows += 1
        self.timed += when is not None
        time = sample * INTERVAL * SECOND if when is None else when
        for name, cell in zip(self.names, cells, strict=True):
            if name in COLUMNS:
                series, factor = COLUMNS[name]
                unknown = subject.instance and name in NOT_OF_A_PART
                self.samples.add(subject, series, time, math.nan if unknown else number(cell) * factor)
