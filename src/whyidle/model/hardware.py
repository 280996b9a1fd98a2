"""What a GPU costs by the hour: a dated table of public list prices, each with its source.

A list price is a stand-in until the user gives the real one (`--price`): discounts, reservations and other clouds
differ by several times. It is the price of the smallest on-demand instance that we know with that GPU, divided by its
GPUs, so it holds the CPUs and memory rented with it. A GPU that is not in the table has no price, never a near one;
cards of the same GPU and memory that differ only in their socket (PCIe, SXM) share one where the table has one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from whyidle.errors import WhyIdleError


@dataclass(frozen=True, slots=True)
class ListPrice:
    """What a cloud asked for an instance, on demand, Linux, in US dollars before tax."""

    gpu: str
    usd_per_instance_hour: float
    gpus: int  # per instance
    instance: str
    region: str
    month: str  # when the price was current, as far as we know

    @property
    def usd_per_gpu_hour(self) -> float:
        """Return US dollars per GPU-hour, to the cent, so that what is shown multiplies to what is shown."""
        return round(self.usd_per_instance_hour / self.gpus, 2)

    @property
    def source(self) -> str:
        """Return where the number comes from, for a person."""
        return f"{self.gpu}: {self.instance}, {self.region}, list price, {self.month}"


def has(*words: str) -> re.Pattern[str]:
    """Match names that hold all words; a word ends where letters and digits end, so A10 is not A10G, L4 not L40S."""
    return re.compile("".join(rf"(?=.*(?<![a-z0-9]){word}(?![a-z0-9]))" for word in words), re.IGNORECASE)


# A share of a GPU (MIG slices, virtual GPUs like "A10-24Q") has no list price of its own.
PART_OF_A_GPU = re.compile(r"\bMIG\b|-\d+(?:-\d+)?[QCAB](?:ME)?$", re.IGNORECASE)

# First match wins, so a variant stands before its family; None: known, and not priced.
# On-demand prices as known for the month given (AWS had just lowered those of P4 and P5). Not read from the clouds'
# pages by a program: check them before you rely on them, and give --price.
_US_EAST = "us-east-1"
_TABLE: tuple[tuple[re.Pattern[str], ListPrice | None], ...] = (
    (has("V100", "16GB"), ListPrice("V100 16GB", 3.06, 1, "AWS p3.2xlarge", _US_EAST, "June 2025")),
    (
        has("V100", "32GB"),
        ListPrice("V100 32GB", 31.212, 8, "AWS p3dn.24xlarge", _US_EAST, "June 2025"),
    ),
    (has("T4"), ListPrice("T4", 0.526, 1, "AWS g4dn.xlarge", _US_EAST, "June 2025")),
    (has("A10G"), ListPrice("A10G", 1.006, 1, "AWS g5.xlarge", _US_EAST, "June 2025")),
    (has("A10"), ListPrice("A10", 0.75, 1, "Lambda 1x A10", "all regions", "June 2025")),
    (has("L40S"), ListPrice("L40S", 1.861, 1, "AWS g6e.xlarge", _US_EAST, "June 2025")),
    (has("L4"), ListPrice("L4", 0.8048, 1, "AWS g6.xlarge", _US_EAST, "June 2025")),
    (has("A100", "40GB"), ListPrice("A100 40GB", 21.9576, 8, "AWS p4d.24xlarge", _US_EAST, "June 2025")),
    (
        has("A100", "PCIe", "80GB"),
        ListPrice("A100 80GB PCIe", 3.673, 1, "Azure NC24ads_A100_v4", "East US", "June 2025"),
    ),
    (has("A100", "80GB"), ListPrice("A100 80GB", 27.4471, 8, "AWS p4de.24xlarge", _US_EAST, "June 2025")),
    (has("H100", "NVL"), ListPrice("H100 NVL", 6.98, 1, "Azure NC40ads_H100_v5", "East US", "June 2025")),
    (has("H100", "PCIe"), ListPrice("H100 PCIe", 2.49, 1, "Lambda 1x H100 PCIe", "all regions", "June 2025")),
    (has("H100"), ListPrice("H100 SXM", 55.04, 8, "AWS p5.48xlarge", _US_EAST, "June 2025")),
    (has("H200", "NVL"), None),
    (has("H200"), ListPrice("H200", 63.296, 8, "AWS p5en.48xlarge", _US_EAST, "June 2025")),
    (has("B200"), ListPrice("B200", 113.9328, 8, "AWS p6-b200.48xlarge", _US_EAST, "June 2025")),
    (has("MI300X"), ListPrice("MI300X", 48.0, 8, "Oracle BM.GPU.MI300X.8", "all regions", "June 2025")),
)

PRICED_GPUS: tuple[str, ...] = tuple(price.gpu for _, price in _TABLE if price is not None)


def one_price(gpus: Iterable[str]) -> ListPrice | None:
    """Return the one list price that holds for all these GPUs; None without one."""
    prices = {list_price(gpu) for gpu in gpus}
    return prices.pop() if len(prices) == 1 else None


def list_price(gpu: str) -> ListPrice | None:
    """Return the list price for a device name such as "NVIDIA A100-SXM4-40GB"; None for a GPU not in the table."""
    if PART_OF_A_GPU.search(gpu):
        return None
    return next((price for pattern, price in _TABLE if pattern.match(gpu)), None)


def check_rented(usd_per_gpu_hour: float | None, gpus: int | None) -> None:
    """Refuse a price, or a number of GPUs, that cannot be; None is not given.

    Raises:
        WhyIdleError: for a price below 0 or without end, and for no GPU.
    """
    if usd_per_gpu_hour is not None and not (math.isfinite(usd_per_gpu_hour) and usd_per_gpu_hour >= 0):
        raise WhyIdleError(f"the price is US dollars per GPU-hour, 0 or more, not {usd_per_gpu_hour:g}", "--price 2.60")
    if gpus is not None and gpus < 1:
        raise WhyIdleError(f"the number of GPUs is 1 or more, not {gpus}", "--gpus 8")
