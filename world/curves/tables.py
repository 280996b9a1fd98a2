"""Samples as the tables that people keep of them: nvidia-smi dmon, nvidia-smi --query-gpu, a CSV of minutes.

The layouts are those of nvidia-smi 5xx (man nvidia-smi; recordings in public repositories).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from world.curves.sampling import SW_POWER_CAP, SW_THERMAL, Product, Samples

BEGAN = datetime(2026, 1, 5, 3, 0, tzinfo=UTC)
HEADER_EVERY = 50  # samples, about as nvidia-smi dmon repeats it

DMON = (
    "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  pviol"
    "  tviol     fb   bar1   ccpm \n"
    "#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %    MHz    MHz      %"
    "   bool     MB     MB     MB \n"
)
QUERY = (
    "timestamp", "index", "name", "utilization.gpu [%]", "utilization.memory [%]", "memory.used [MiB]",
    "memory.total [MiB]", "power.draw [W]", "power.limit [W]", "clocks.current.sm [MHz]", "clocks.max.sm [MHz]",
    "temperature.gpu", "clocks_event_reasons.active",
)  # fmt: skip


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def rows(gpus: Sequence[Samples]) -> Iterator[tuple[int, Samples]]:
    """Yield (i, samples) in the order in which a poller prints them: all GPUs, then the next time."""
    for i in range(max(len(one.time) for one in gpus)):
        for one in gpus:
            if i < len(one.time):
                yield i, one


def dmon(gpus: Sequence[Samples], product: Product) -> str:
    """Return what `nvidia-smi dmon -s pucvm -o DT` prints."""
    lines = []
    for i, one in rows(gpus):
        if one is gpus[0] and i % HEADER_EVERY == 0:
            lines.append(DMON)
        reason = int(one.reasons[i])
        power_held = round(100 * (1 - one.clock_mhz[i] / product.sm_clock_mhz)) if reason & SW_POWER_CAP else 0
        lines.append(
            f" {at(one.time[i]):%Y%m%d   %H:%M:%S} {one.gpu:6d} {one.power_w[i]:6.0f} {one.temperature_c[i]:6.0f}"
            f"      - {_whole(one.utilization[i]):>6} {_whole(one.memory_utilization[i]):>6}"
            f"      0      0      0      0 {product.memory_clock_mhz:6d} {one.clock_mhz[i]:6.0f} {power_held:6d}"
            f" {int(bool(reason & SW_THERMAL)):6d} {one.memory_mib[i]:6.0f}      4      0 \n"
        )
    return "".join(lines)


def query(gpus: Sequence[Samples], product: Product, *, units: bool) -> str:
    """Return what `nvidia-smi --query-gpu=... --format=csv[,nounits] -l` prints."""
    percent, mib, watt, mhz = (" %", " MiB", " W", " MHz") if units else ("", "", "", "")
    lines = [", ".join(QUERY) + "\n"]
    for i, one in rows(gpus):
        lines.append(
            f"{at(one.time[i]):%Y/%m/%d %H:%M:%S}.{at(one.time[i]).microsecond // 1000:03d}, {one.gpu}, {product.name},"
            f" {_whole(one.utilization[i], '[N/A]')}{percent}, {_whole(one.memory_utilization[i], '[N/A]')}{percent},"
            f" {one.memory_mib[i]:.0f}{mib}, {product.memory_mib}{mib}, {one.power_w[i]:.2f}{watt},"
            f" {one.limit_w[i]:.2f}{watt}, {one.clock_mhz[i]:.0f}{mhz}, {product.sm_clock_mhz}{mhz},"
            f" {one.temperature_c[i]:.0f}, 0x{int(one.reasons[i]):016x}\n"
        )
    return "".join(lines).replace("[N/A] %", "[N/A]")


def minutes(gpus: Sequence[Samples], product: Product) -> str:
    """Return a CSV of one mean per minute and GPU, as dashboards export it."""
    del product
    lines = ["timestamp,gpu,utilization,memory_used_mib,power_w\n"]
    means = [tuple(minute(one, values) for values in (one.utilization, one.memory_mib, one.power_w)) for one in gpus]
    for k in range(int(max(one.time[-1] for one in gpus) // 60)):
        for one, columns in zip(gpus, means, strict=True):
            cells = ",".join(_two(column, k) for column in columns)
            lines.append(f"{at(60 * k):%Y-%m-%dT%H:%M:%SZ},{one.gpu},{cells}\n")
    return "".join(lines)


def minute(one: Samples, values: np.ndarray) -> dict[int, float]:
    """Return the mean of each minute that has a sample."""
    which, known = (one.time // 60).astype(int), ~np.isnan(values)
    total, count = np.bincount(which[known], values[known]), np.bincount(which[known])
    return {k: float(total[k] / count[k]) for k in range(len(count)) if count[k]}


def _whole(value: float, missing: str = "-") -> str:
    return missing if np.isnan(value) else f"{value:.0f}"


def _two(values: dict[int, float], k: int) -> str:
    return f"{values[k]:.2f}" if k in values else ""
