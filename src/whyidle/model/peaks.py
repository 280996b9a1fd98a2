"""What a GPU can do on paper: arithmetic by type of number, memory and links, a dated table with sources.

Dense rates, with boost clocks, of products with fp32 accumulation. "sheet" is the maker's data sheet as known in 2025;
"checked" has the same number in two public tables of it besides (stas00/ml-engineering, torchtitan's get_peak_flops),
"clock" follows from clock and units (`peak_of_clock`). A GPU that is not in the table has no peak, never a near one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from whyidle.model.hardware import PART_OF_A_GPU, has

Number = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
TERA: Final = 1e12
GIGA: Final = 1e9
# GB/s in one direction, of 16 lanes.
PCIE_3, PCIE_4, PCIE_5 = 15.75, 31.5, 63.0


@dataclass(frozen=True, slots=True)
class Peaks:
    """What one GPU does at most; 0: it has no units for that, or no number that we trust."""

    gpu: str
    fp32: float  # TFLOP/s, of products: on ordinary units, or on AMD's matrix units, which round nothing
    tf32: float  # TFLOP/s, dense, as are the following
    half: float  # fp16, and bf16 where the GPU has it
    fp8: float
    memory: float  # TB/s
    link: float  # GB/s in one direction, to the other GPUs of a node; 0: over the host's
    host: float  # GB/s in one direction, to the host
    source: str
    has_bf16: bool = True
    reached: float = 0.0  # share of `half` that the best matrix product reached, stas00/ml-engineering; 0: not measured

    def flops(self, number: str) -> float | None:
        """Return FLOP/s of products of this type of number; None where the GPU has no units for it."""
        half = {"fp16": self.half, "bf16": self.half if self.has_bf16 else 0.0}
        tera = {"fp32": self.fp32, "tf32": self.tf32, "fp8": self.fp8, **half}.get(number, 0.0)
        return tera * TERA or None

    @property
    def memory_bytes_per_s(self) -> float:
        return self.memory * TERA

    @property
    def host_bytes_per_s(self) -> float:
        return self.host * GIGA


_SHEET, _CHECKED, _CLOCK = "data sheet, 2025", "data sheet, checked 2025", "data sheet, checked 2025; clock"
_DIFFER = "data sheets differ (2300 or 2500), 2025"
_H100_SXM = has("H100", "(?:HBM3|SXM\\d?)")
# First match wins, so a variant stands before its family: GB200 is not B200, H100 PCIe not SXM, A10G not A10.
_TABLE: Final[tuple[tuple[re.Pattern[str], Peaks | None], ...]] = (
    (has("Laptop"), None),  # another chip under the same name
    (has("Max-Q"), None),
    (has("V100", "FHHL"), None),  # 150 W: lower clocks
    (has("V100S"), Peaks("V100S PCIe", 16.4, 0, 130, 0, 1.134, 0, PCIE_3, _SHEET, has_bf16=False)),
    (has("V100", "PCIE"), Peaks("V100 PCIe", 14.0, 0, 112, 0, 0.90, 0, PCIE_3, _SHEET, has_bf16=False)),
    (has("V100"), Peaks("V100 SXM2", 15.7, 0, 125, 0, 0.90, 150, PCIE_3, _SHEET, has_bf16=False)),
    (has("T4"), Peaks("T4", 8.1, 0, 65, 0, 0.32, 0, PCIE_3, _SHEET, has_bf16=False)),
    (has("A10G"), Peaks("A10G", 31.2, 35, 70, 0, 0.60, 0, PCIE_4, "AWS and NVIDIA differ (62.5 or 70), 2025")),
    (has("A10"), Peaks("A10", 31.2, 62.5, 125, 0, 0.60, 0, PCIE_4, _SHEET)),
    (has("L40S"), Peaks("L40S", 91.6, 183, 362, 733, 0.864, 0, PCIE_4, _CHECKED)),
    (has("L4"), Peaks("L4", 30.3, 60, 121, 242, 0.30, 0, PCIE_4, _SHEET)),
    (has("A100", "PCIe", "80GB"), Peaks("A100 PCIe 80GB", 19.5, 156, 312, 0, 1.94, 0, PCIE_4, _CLOCK, reached=0.811)),
    (has("A100", "PCIe"), Peaks("A100 PCIe 40GB", 19.5, 156, 312, 0, 1.555, 0, PCIE_4, _CLOCK, reached=0.811)),
    (has("A100", "80GB"), Peaks("A100 SXM 80GB", 19.5, 156, 312, 0, 2.04, 300, PCIE_4, _CLOCK, reached=0.869)),
    (has("A100", "40GB"), Peaks("A100 SXM 40GB", 19.5, 156, 312, 0, 1.555, 300, PCIE_4, _CLOCK, reached=0.869)),
    (has("H100", "PCIe"), Peaks("H100 PCIe", 51, 378, 756, 1513, 2.0, 0, PCIE_5, _CHECKED)),
    (has("H100", "NVL"), Peaks("H100 NVL", 60, 417, 835, 1671, 3.9, 300, PCIE_5, _CHECKED)),
    # "H100 80GB HBM3" is the SXM card; those with HBM2e and less power have no public peak (a note in torchtitan).
    (_H100_SXM, Peaks("H100 SXM", 67, 494.5, 989, 1979, 3.35, 450, PCIE_5, _CLOCK, reached=0.803)),
    (has("H100"), None),
    (has("H200", "NVL"), Peaks("H200 NVL", 60, 417, 835, 1671, 4.8, 450, PCIE_5, _SHEET)),
    (has("H200"), Peaks("H200 SXM", 67, 494.5, 989, 1979, 4.8, 450, PCIE_5, _CHECKED, reached=0.803)),
    (has("GB200"), Peaks("GB200", 80, 1250, 2500, 5000, 8.0, 900, 450, _CHECKED, reached=0.729)),
    (has("GB300"), None),
    (has("B200"), Peaks("B200 SXM", 80, 1125, 2250, 4500, 8.0, 900, PCIE_5, _CHECKED, reached=0.776)),
    (has("B300"), Peaks("B300 SXM", 80, 1125, 2250, 4500, 8.0, 900, PCIE_5, _CHECKED, reached=0.786)),
    (has("RTX", "3090", "Ti"), None),
    (has("RTX", "3090"), Peaks("RTX 3090", 35.6, 35.6, 71, 0, 0.936, 0, PCIE_4, _SHEET)),
    (has("RTX", "4090", "D"), None),
    (has("RTX", "4090"), Peaks("RTX 4090", 82.6, 82.6, 165, 330, 1.008, 0, PCIE_4, _SHEET)),
    (has("RTX", "5090", "D"), None),
    (has("RTX", "5090"), Peaks("RTX 5090", 105, 105, 210, 419, 1.79, 0, PCIE_5, _SHEET)),
    # Of the card's two halves each is a device of its own: what PyTorch calls a GPU.
    (has("MI250X"), Peaks("MI250X, one half", 47.85, 0, 191.5, 0, 1.64, 350, PCIE_4, _CLOCK)),
    (has("MI300X"), Peaks("MI300X", 163.4, 653.7, 1307.4, 2614.9, 5.3, 448, PCIE_5, _CLOCK, reached=0.514)),
    (has("MI325X"), Peaks("MI325X", 163.4, 653.7, 1307.4, 2614.9, 6.0, 448, PCIE_5, _CLOCK, reached=0.604)),
    (has("MI355X"), Peaks("MI355X", 157.3, 0, 2500, 5000, 8.0, 535.5, PCIE_5, _DIFFER, reached=0.68)),
)  # fmt: skip

KNOWN_GPUS: Final[tuple[str, ...]] = tuple(peaks.gpu for _, peaks in _TABLE if peaks is not None)


def peaks(gpu: str) -> Peaks | None:
    """Return the peaks of a device of a name such as "NVIDIA A100-SXM4-40GB"; None for one not in the table."""
    if PART_OF_A_GPU.search(gpu):
        return None
    return next((found for pattern, found in _TABLE if pattern.match(gpu)), None)


def peak_of_clock(mhz: float, fma_per_clock: int, units: int) -> float:
    """Return FLOP/s of so many units (tensor cores, multiprocessors) with so many multiply-adds per clock each."""
    return mhz * 1e6 * fma_per_clock * units * 2
