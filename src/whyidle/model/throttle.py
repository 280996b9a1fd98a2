"""Why a GPU's clock is lower than it could be: bits of NVML's clocks event reasons, as nvml.h has them."""

from __future__ import annotations

from typing import Final

POWER_CAP: Final = 0x4
THERMAL: Final = 0x8 | 0x20 | 0x40 | 0x80  # hardware, software thermal, hardware thermal, power brake
