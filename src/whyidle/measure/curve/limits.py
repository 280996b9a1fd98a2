"""What holds a GPU's clock down, by NVML's reasons, dmon's violations, clocks, temperature and power limits.

Under the names that `whyidle run` measures them by, so that `hw.thermal` and `hw.power_cap` speak of curves, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whyidle.measure.curve.samples import at
from whyidle.measure.curve.shape import Shape
from whyidle.model.evidence import Floats64
from whyidle.model.finding import Location
from whyidle.model.measurement import Measurement

# Bits of NVML's clocks event reasons.
POWER_CAP: Final = 0x4
THERMAL: Final = 0x8 | 0x20 | 0x40 | 0x80  # hardware, software thermal, hardware thermal, power brake
BUSY: Final = 1.0  # percent
LOWERED: Final = 0.95  # of the highest limit that is known: within 5% it is the same (see hw.power_cap)
FLAG: Final = 0.0  # percent of the past second: held back at all (a flag is 0 or 100)


def measure(shapes: Sequence[Shape]) -> Iterator[Measurement]:
    """Yield limits of the GPU that they hold the most; nothing of what was not recorded."""
    throttled = (("throttle_thermal_share", THERMAL, "thermal"), ("throttle_power_share", POWER_CAP, "power"))
    for name, bits, cause in throttled:
        found = [(_throttled(one, bits, f"{cause}_violation_percent"), one) for one in shapes]
        known = [(share, one) for share, one in found if share is not None]
        if known:
            most, one = max(known, key=lambda item: item[0])
            yield Measurement(name, most, locations=(Location(one.gpu.path, device=one.gpu.device),))
    hottest = [float(np.median(column)) for one in shapes if len(column := _while_busy(one, "temperature_c"))]
    if hottest:
        yield Measurement("temperature_c", max(hottest))
    clocks = [share for one in shapes if (share := _clock(one)) is not None]
    if clocks:
        yield Measurement("clock_share", max(min(*clocks, 1.0), 0.0))
    limits = list(_limits(shapes))
    if limits:
        yield Measurement("power_limit_share", min(limits))


def _limits(shapes: Sequence[Shape]) -> Iterator[float]:
    """Yield each GPU's power limit of its default; where that is not told, of the highest that is known, if lower.

    Higher ones are those of the same GPU at another time, and of the others of its model.
    """
    levels = [(one, level, top) for one in shapes for level, top in [_power_limit(one)] if level > 0]
    highest: dict[object, float] = {}
    for one, _, top in levels:
        model = one.gpu.facts.get("name", "")
        highest[model] = max(highest.get(model, 0.0), top)
    for one, level, _ in levels:
        usual = one.gpu.facts.get("power_limit_default_w")
        if isinstance(usual, int | float) and usual > 0:
            yield level / float(usual)
        elif (share := level / highest[one.gpu.facts.get("name", "")]) < LOWERED:
            yield share


def _power_limit(one: Shape) -> tuple[float, float]:
    """Return a GPU's power limit in W, the mean while it is busy, and the highest that it ever has; 0 if unknown."""
    told = one.gpu.facts.get("power_limit_w")
    if isinstance(told, int | float):
        return float(told), float(told)
    series, busy = one.gpu.counters.get("power_limit_w"), _while_busy(one, "power_limit_w")
    return (float(busy.mean()), float(np.nanmax(series.value))) if series is not None and len(busy) else (0.0, 0.0)


def _while_busy(one: Shape, name: str) -> Floats64:
    """Return the known values of a counter in the samples in which the GPU is busy."""
    series = one.gpu.counters.get(name)
    if series is None:
        return np.empty(0)
    value = at(series, one.samples.time, 3 * one.samples.interval_s)[one.samples.value >= BUSY]
    return value[np.isfinite(value)]


def _throttled(one: Shape, bits: int, violation: str) -> float | None:
    """Return in how much of the busy samples the clock is held down; None where nobody recorded that."""
    reasons = _while_busy(one, "throttle_reasons")
    if len(reasons):
        return float(np.mean((np.clip(reasons, 0, 2.0**53).astype(np.int64) & bits) != 0))
    held = _while_busy(one, violation)
    return float(np.mean(held > FLAG)) if len(held) else None


def _clock(one: Shape) -> float | None:
    """Return the median clock while busy, of the maximum; None where either is not known."""
    clock, most = _while_busy(one, "sm_clock_mhz"), _while_busy(one, "sm_clock_max_mhz")
    told = one.gpu.facts.get("sm_clock_max_mhz")
    whole = float(np.median(most)) if len(most) else float(told) if isinstance(told, int | float) else 0.0
    return float(np.median(clock)) / whole if len(clock) and whole > 0 else None
