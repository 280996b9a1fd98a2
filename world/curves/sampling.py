"""What a sensor tells of a GPU: through its window, at its times, rounded as it rounds. Fast steps alias, as they do.

NVML's utilization is of the past sample period, 1/6 to 1 s by product (nvml.h: nvmlUtilization_t); DCGM's profiling
counters are means over their interval; power is that of a sensor that lags.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from world.curves.signal import Floats
from world.curves.training import Training

# NVML's clocks event reasons (nvml.h)
IDLE, SW_POWER_CAP, SW_THERMAL = 0x1, 0x4, 0x20

HEATS_S = 60.0  # how long a GPU takes to get warm, about


@dataclass(frozen=True, slots=True)
class Product:
    """A GPU: its name, watts, bytes, MHz, and the window of its utilization counter in s (which differs by product)."""

    name: str
    idle_w: float
    limit_w: float
    memory_mib: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    window_s: float


PRODUCTS = (
    Product("Tesla V100-SXM2-32GB", 42, 300, 32768, 1530, 877, 1 / 6),
    Product("NVIDIA A100-SXM4-40GB", 55, 400, 40960, 1410, 1215, 0.5),
    Product("NVIDIA H100 80GB HBM3", 70, 700, 81559, 1980, 2619, 1.0),
    Product("NVIDIA L4", 12, 72, 23034, 2040, 6251, 1 / 6),
)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """What was read of one GPU: columns (k,); NaN where a reading failed."""

    gpu: int
    time: Floats  # s since the recording began
    utilization: Floats  # percent, whole
    memory_utilization: Floats  # percent, whole
    memory_mib: Floats
    power_w: Floats
    limit_w: Floats
    clock_mhz: Floats
    temperature_c: Floats
    reasons: Floats  # bits
    busy: Floats  # DCGM's graphics engine, share over the interval
    sm: Floats  # share over the interval
    tensor: Floats  # share over the interval


def times(training: Training, interval_s: float, rng: Generator, jitter: float = 0.01, missing: float = 0.0) -> Floats:
    """Return when a poller reads: every interval, late by a little, sometimes not at all."""
    due = np.arange(1, int(training.seconds / interval_s) + 1) * interval_s
    late = np.abs(rng.normal(0.0, jitter * interval_s, len(due)))
    return np.asarray((due + np.minimum(late, 0.4 * interval_s))[rng.random(len(due)) >= missing])


def read(training: Training, product: Product, gpu: int, time: Floats, rng: Generator) -> Samples:
    """Read one GPU at these times."""
    busy, sm, tensor = training.busy(gpu), training.sm_active(gpu), training.tensor_active(gpu)
    window = product.window_s
    done = np.floor((time - rng.uniform(0, window)) / window) * window  # the last period that has ended
    used = busy.over(done - window, done)
    before = np.concatenate(([max(2 * time[0] - time[1], 0.0)], time[:-1]))
    turned = training.has_turned(gpu, time)
    clock = np.where(turned, training.clock_after, training.clock)
    started = time >= 0.6 * training.startup_s  # memory is taken before the first step
    held = np.where(turned, training.memory_after, training.memory)
    active = sm.over(before, time)
    reasons = np.where(turned, training.reason_after, training.reason)
    work = 0.15 * used + active * clock**2  # of the power above idle
    lowered = np.where(turned & (reasons == SW_POWER_CAP), 0.15 + training.sm * training.clock_after**2, 1.0)
    limit = np.round(product.idle_w + (product.limit_w - product.idle_w) * lowered)
    capped = (reasons == SW_POWER_CAP) & (used > 0)
    power = _power(np.where(capped, lowered * used, np.minimum(work, 1.0)), product, time, training.seconds)
    return Samples(
        gpu,
        time,
        utilization=np.round(100 * used),
        memory_utilization=np.round(100 * active * 0.4 + rng.uniform(0, 1, len(time)) * (active > 0)),
        memory_mib=np.where(started, np.round(held * product.memory_mib), 4.0),
        power_w=np.round(power + rng.normal(0, 0.01 * product.limit_w, len(time)), 2),
        limit_w=limit,
        clock_mhz=np.round(np.where(used > 0, clock, 0.97) * product.sm_clock_mhz / 15) * 15,
        temperature_c=_temperature(power / product.limit_w, time, hot=turned & (training.reason_after == SW_THERMAL)),
        reasons=np.where(used > 0, reasons, IDLE).astype(np.float64),
        busy=busy.over(before, time),
        sm=active,
        tensor=tensor.over(before, time),
    )


def _power(work: Floats, product: Product, time: Floats, seconds: float) -> Floats:
    """Return watts: what runs (0 idle, 1 at the limit), followed by a sensor that takes about a second."""
    target = product.idle_w + (product.limit_w - product.idle_w) * work
    follow = 1 - np.exp(-np.diff(time, prepend=max(time[0] - seconds / len(time), 0.0)))
    out, level = np.empty_like(target), float(target[0])
    for i, (goal, share) in enumerate(zip(target.tolist(), follow.tolist(), strict=True)):
        level += share * (goal - level)
        out[i] = level
    return out


def _temperature(load: Floats, time: Floats, hot: NDArray[np.bool_]) -> Floats:
    warm = 34 + 32 * load * (1 - np.exp(-time / HEATS_S))
    return np.asarray(np.round(np.where(hot, 87.0, warm)), np.float64)
