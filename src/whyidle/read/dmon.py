"""nvidia-smi dmon: every selection of columns (-s pucvmet), with and without date and time (-o DT), as text or CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.blocks import Blocks
from whyidle.read.table.curve import curve_of, still_there, with_damage
from whyidle.read.table.gather import Collector, Layout
from whyidle.read.table.names import MIB, Meaning
from whyidle.read.table.opening import LINES_BEFORE, behind, opened
from whyidle.read.table.rows import WHITESPACE, Cutter, split_line

# Columns of drivers 340 to 590; "temp" became "gtemp" and "mtemp" in 2018, "tviol" changes between % and a flag.
COLUMNS: Final = {
    "sm": Meaning("utilization_percent", share=False),  # NVML's utilization.gpu, whatever the column is called
    "mem": Meaning("memory_utilization_percent", share=False),
    "enc": Meaning("encoder_percent", share=False),
    "dec": Meaning("decoder_percent", share=False),
    "pwr": Meaning("power_w"),
    "temp": Meaning("temperature_c"),
    "gtemp": Meaning("temperature_c"),
    "pclk": Meaning("sm_clock_mhz"),
    "fb": Meaning("memory_used_bytes", MIB),
    "pviol": Meaning("power_violation_percent", share=False),
    "tviol": Meaning("thermal_violation_percent", share=False),
    "rxpci": Meaning("pcie_rx_bytes_per_s", 1e6),
    "txpci": Meaning("pcie_tx_bytes_per_s", 1e6),
    "gract": Meaning("graphics_active_share", 0.01),  # from here --gpm-metrics, of Hopper and later, all in %
    "smutil": Meaning("sm_active_share", 0.01),
    "smocc": Meaning("sm_occupancy_share", 0.01),
    "mmaact": Meaning("tensor_active_share", 0.01),
    "dram": Meaning("dram_active_share", 0.01),
    "fp64": Meaning("fp64_active_share", 0.01),
    "fp32": Meaning("fp32_active_share", 0.01),
    "fp16": Meaning("fp16_active_share", 0.01),
}
FLAG: Final = 100.0  # percent, of a violation that is told as yes or no
HEADER: Final = re.compile(rb"^[ \t]*#[ \t]*(?:(?:Date|Time)[ \t,]+)*gpu[ \t,]+(?!.*\bpid\b)[^\n]*", re.MULTILINE)
MOST_COLUMNS: Final = 200
RECORD_DMON: Final = "nvidia-smi dmon -s pucvmt -o DT > dmon.txt"


class Dmon(Reader):
    """Reads what `nvidia-smi dmon` prints or writes (-f)."""

    kind = "nvidia-smi dmon"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        return any(HEADER.match(line) for line in head.splitlines()[:LINES_BEFORE])

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """Read the file; UnreadableError where it has no row, or no column that is known."""
        blocks = Blocks(path, progress)
        return still_there(_read(blocks, path, blocks), path)


def parse(content: bytes, path: Path) -> Curve | None:
    """Return the curve in what dmon printed; None where there is no header of dmon. UnreadableError as Dmon.read."""
    return _read([content], path)


def _read(blocks: Iterable[bytes], path: Path, file: Blocks | None = None) -> Curve | None:
    first, pieces = opened(blocks)
    match = HEADER.search(first)
    if match is None:
        return None
    delimiter = b"," if b"," in match[0] else WHITESPACE
    names = cells_of(match[0], delimiter)
    units = cells_of(first[match.end() :].lstrip().split(b"\n", 1)[0], delimiter)
    layout = layout_of(names, units if len(units) == len(names) else [])
    if not layout.values or len(names) > MOST_COLUMNS:
        raise UnreadableError(path, f"nvidia-smi dmon without a counter of use: {', '.join(names[:9])}.", RECORD_DMON)
    cutter = Cutter(delimiter, len(names), comment=b"#")
    curve = curve_of(behind(pieces, match.end()), cutter, Collector(layout), path, Dmon.kind, "nvidia-smi dmon")
    return with_damage(curve, file)


def layout_of(names: list[str], units: list[str]) -> Layout:
    """Return which columns of dmon are read."""
    values = {}
    for index, name in enumerate(names):
        if name in COLUMNS:
            meaning = COLUMNS[name]
            flag = name in {"pviol", "tviol"} and units and units[index].lower() == "bool"
            values[index] = Meaning(meaning.name, FLAG if flag else meaning.factor, share=meaning.share)
    return Layout(values, *time_columns(names), keys={"device": names.index("gpu")} | instance_column(names))


def time_columns(names: list[str]) -> tuple[int | None, int | None, str]:
    """Return the columns of time and date (-o DT), and how times are written. A date alone is no time."""
    if "time" not in names:
        return None, None, ""
    return names.index("time"), names.index("date") if "date" in names else None, "clock"


def instance_column(names: list[str]) -> dict[str, int]:
    """Return the column that tells the instances of a split GPU (MIG) apart, where there is one."""
    return next(({"instance": names.index(name)} for name in ("gi", "mig") if name in names), {})


def cells_of(line: bytes, delimiter: bytes) -> list[str]:
    """Return the words of a header line, which begins with a hash."""
    cells = split_line(line.strip().lstrip(b"#"), delimiter)
    return [cell.decode("ascii", "replace").lower() for cell in cells]
