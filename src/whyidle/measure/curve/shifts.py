"""What shifted from one level to another on the GPU that loses most by it: utilization, its clock or its power."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whyidle.measure.curve.change import Change, change
from whyidle.measure.curve.peers import RELATIVE, SPEED, WORDS
from whyidle.measure.curve.samples import at
from whyidle.measure.curve.shape import LEAST, Shape
from whyidle.model.finding import Location
from whyidle.model.measurement import Measurement

SLOWED = 0.1  # of the level: the least shift of a clock or of power that is told (judgement)
LOADED = 50.0  # percent: an idle GPU lowers its clock by itself


def changes(shapes: Sequence[Shape], total: float, origin: int) -> Iterator[Measurement]:
    """Yield shifts: of utilization, else of clock or power under load, of the GPU that loses most by it."""
    slowed = [(one, *found) for one in shapes if (found := _slowed(one)) is not None]
    yield Measurement("curve_slowed_share", sum(item[3] for item in slowed) / total)
    shifted = [one for one in shapes if one.change]
    idle = max((one.parts["change"] for one in shifted), default=0.0)
    counter, at_ns, moved, worst = "none", origin, Change(0, 0.0, 0.0), shapes[0]
    if slowed and max(item[3] for item in slowed) >= idle:
        worst, counter, moved, _, at_ns = max(slowed, key=lambda item: item[3])
    elif shifted:
        worst = max(shifted, key=lambda one: one.parts["change"])
        assert worst.change
        counter, moved = "utilization", worst.change
        at_ns = int(worst.body.time[moved.at])
    seconds = (at_ns - int(worst.samples.time[0])) / 1e9
    place = Location(worst.gpu.path, device=worst.gpu.device, start_s=max(seconds, 0.0), name=worst.gpu.subject)
    yield Measurement("curve_change_counter", counter, locations=(place,) if counter != "none" else ())
    if counter != "none":
        yield Measurement("curve_change_s", max(seconds, 0.0))
        yield Measurement("curve_change_from", moved.before)
        yield Measurement("curve_change_to", moved.after)
        yield Measurement("curve_change_gradual", moved.gradual)
        more = _memory(worst, at_ns)
        if more is not None:
            yield Measurement("curve_change_memory_bytes", more)


def _memory(one: Shape, at_ns: int) -> float | None:
    """Return by how much the median of memory in use differs after a moment, in bytes; None where it is not known."""
    series = one.gpu.counters.get("memory_used_bytes")
    if series is None:
        return None
    start, end = int(one.body.time[0]), int(one.body.time[-1])
    before = series.value[(series.time >= start) & (series.time < at_ns)]
    after = series.value[(series.time > at_ns) & (series.time <= end)]
    if np.isnan(before).all() or np.isnan(after).all():
        return None
    return float(np.nanmedian(after) - np.nanmedian(before))


def _slowed(one: Shape) -> tuple[str, Change, float, int] | None:
    """Return how clock, else power, shifts while a GPU is busy: counter, levels, s lost at most, when; or None."""
    body = one.body
    loaded = body.value >= LOADED
    if int(loaded.sum()) < LEAST:
        return None
    time, seconds = body.time[loaded], body.seconds[loaded]
    utilized = body.value[loaded].astype(np.float64) / 100 * seconds
    for name in RELATIVE:
        series = one.gpu.counters.get(name)
        if series is None or not np.isfinite(series.value).any():
            continue
        value = at(series, time, 3 * body.interval_s)
        known = np.isfinite(value)
        level = float(np.median(value[known])) if known.any() else 0.0
        moved = change(value[known].astype(np.float32), max(SLOWED, RELATIVE[name]) * max(level, 1.0))
        if moved is None or max(moved.before, moved.after) <= 0:
            return None  # clocks are known not to shift: power then follows what runs
        lower = utilized[known][moved.at :] if moved.after < moved.before else utilized[known][: moved.at]
        factor = max(min(moved.before, moved.after), 0.0) / max(moved.before, moved.after)
        return WORDS[name], moved, float(lower.sum()) * (1 - factor ** SPEED[name]), int(time[known][moved.at])
    return None
