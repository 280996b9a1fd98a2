"""nvidia-smi dmon: every selection of columns (-s pucvmet), with and without date and time (-o DT), as text or CSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from whyidle.read.base import UnreadableError
from whyidle.read.smi_monitor import Monitor, instance_column, time_columns
from whyidle.read.table.gather import Layout
from whyidle.read.table.names import MIB, Meaning

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


class Dmon(Monitor):
    """Reads what `nvidia-smi dmon` prints or writes (-f)."""

    kind = "nvidia-smi dmon"
    header = HEADER

    @classmethod
    def layout(cls, names: list[str], units: list[str], path: Path) -> Layout:
        """See Monitor."""
        values = {}
        for index, name in enumerate(names):
            if name in COLUMNS:
                meaning = COLUMNS[name]
                flag = name in {"pviol", "tviol"} and units and units[index].lower() == "bool"
                values[index] = Meaning(meaning.name, FLAG if flag else meaning.factor, share=meaning.share)
        if not values or len(names) > MOST_COLUMNS:
            raise UnreadableError(path, f"{cls.kind} without a counter of use: {', '.join(names[:9])}.", RECORD_DMON)
        return Layout(values, *time_columns(names), keys={"device": names.index("gpu")} | instance_column(names))
