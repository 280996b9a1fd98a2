"""From the shapes of single GPUs to what is said of the job: shares of their time, and each shape where it is worst.

Shares of idle time by shape sum to the idle share, of each GPU and of all of them: each weighs as its curve is long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from whyidle.measure.curve import steps
from whyidle.measure.curve.activity import activity
from whyidle.measure.curve.gpus import Recorded
from whyidle.measure.curve.peers import Lag
from whyidle.measure.curve.samples import samples
from whyidle.measure.curve.shape import LEAST, PARTS, ZERO, Shape
from whyidle.measure.curve.shifts import changes
from whyidle.model.evidence import Series, Value
from whyidle.model.finding import Location
from whyidle.model.measurement import Measurement

EVEN = 0.05  # of the interval, that half of the samples come early or late at most


def whole(shapes: Sequence[Shape], told: Recorded, lag: Lag | None, together: float | None) -> Iterator[Measurement]:
    """Yield what is measured of all GPUs together, and of each."""
    if not shapes:
        return
    total = sum(one.samples.total_s for one in shapes)
    weights = np.array([one.samples.total_s if total else 1.0 for one in shapes])
    means = np.array([one.samples.mean / 100 for one in shapes])
    busy = float(np.average(means, weights=weights))
    yield Measurement("curve_gpus", len(shapes))
    yield Measurement("curve_samples", int(np.median([len(one.samples) for one in shapes])))
    yield Measurement("curve_busy_share", busy)
    yield Measurement("curve_idle_share", 1 - busy)
    yield Measurement("utilization_mean_share", busy)
    yield Measurement("curve_zero_share", float(np.mean([np.mean(one.samples.value < ZERO) for one in shapes])))
    yield from _each(shapes)
    if total <= 0:
        return
    start = min(int(one.samples.time[0]) for one in shapes)
    end = max(int(one.samples.time[-1]) for one in shapes)
    every = float(np.median([i for one in shapes if (i := one.samples.interval_s)]))
    alike = {one.gpu.clock for one in shapes} == {shapes[0].gpu.clock}
    yield Measurement("curve_s", (end - start) / 1e9 + every if alike else max(one.samples.total_s for one in shapes))
    unknown = sum(one.samples.unknown_s for one in shapes)
    yield Measurement("curve_known_share", total / (total + unknown))
    yield Measurement("curve_interval_s", every)
    if any(steps.same_part(told.steps, one.samples.interval_s, one.samples.total_s) for one in shapes if _even(one)):
        yield Measurement("curve_same_part", True)
    shaped = [one for one in shapes if len(one.samples) >= LEAST]
    if shaped:
        yield from _parts(shapes, total)
        yield from _ends(shaped)
        yield from _dips(shaped, told)
        yield from _levels(shaped)
        yield from changes(shaped, total, told.origin)
        yield from _hollow(shaped, total)
        yield from _lagging(shaped, lag, together)


def _even(one: Shape) -> bool:
    """Say whether samples come so evenly that they do not move through a step by themselves."""
    spacing = np.diff(one.samples.time) / 1e9
    return len(spacing) > 0 and float(np.median(abs(spacing - one.samples.interval_s))) < EVEN * one.samples.interval_s


def _each(shapes: Sequence[Shape]) -> Iterator[Measurement]:
    """Yield what is of one GPU or one host, where there are several."""
    if len(shapes) < 2:
        return
    nodes: dict[str, list[Shape]] = {}
    for one in shapes:
        nodes.setdefault(one.gpu.node, []).append(one)
        subject = one.gpu.subject
        yield Measurement("curve_busy_share", one.samples.mean / 100, subject)
        yield Measurement("curve_zero_share", float(np.mean(one.samples.value < ZERO)), subject)
        length = one.samples.total_s
        for name in PARTS:
            if one.parts[name] and length:
                yield Measurement(f"curve_{name}_share", one.parts[name] / length, subject)
    if len(nodes) > 1:
        for node, here in nodes.items():
            if len(here) > 1:
                yield Measurement("curve_busy_share", _mean(here), node)


def _mean(shapes: Sequence[Shape]) -> float:
    weights = [one.samples.total_s or 1.0 for one in shapes]
    return float(np.average([one.samples.mean / 100 for one in shapes], weights=weights))


def _parts(shapes: Sequence[Shape], total: float) -> Iterator[Measurement]:
    """Yield idle time by shape, with where it is on the GPU that has most of it."""
    places: dict[str, Callable[[Shape], tuple[Location, ...]]] = {
        "startup": lambda one: _place(one, 0, one.low),
        "held": lambda one: _place(one, one.held.start if one.held else 0, len(one.samples)),
        "dip": lambda one: _place(one, *(i + one.low for i in one.dips.longest)) if one.dips else (),
        "change": lambda one: _place(one, one.low + (one.change.at if one.change else 0), one.high),
    }
    for name in PARTS:
        if name in ("correlated", "lag") and len(shapes) < 2:
            continue
        worst = max(shapes, key=lambda one: one.parts[name])
        place = places.get(name, _middle)(worst) if worst.parts[name] else ()
        yield Measurement(f"curve_{name}_share", sum(one.parts[name] for one in shapes) / total, locations=place)


def _middle(one: Shape) -> tuple[Location, ...]:
    """Return where a curve is between its start-up and its end."""
    return _place(one, one.low, one.high)


def _place(one: Shape, low: int, high: int) -> tuple[Location, ...]:
    """Return where samples are on a GPU's curve, in s from its first."""
    if high <= low:
        return ()
    time, cut = one.samples.time, one.samples
    start = float(time[low] - time[0]) / 1e9
    end = float(time[high - 1] - time[0]) / 1e9 + cut.interval_s
    return (Location(one.gpu.path, device=one.gpu.device, start_s=start, end_s=end, name=one.gpu.subject),)


def _ends(shapes: Sequence[Shape]) -> Iterator[Measurement]:
    yield Measurement("curve_startup_s", max(one.startup_s for one in shapes))
    held = [one.held for one in shapes if one.held]
    yield Measurement("curve_held_s", max((one.seconds for one in held), default=0.0))
    if held:
        longest = max(held, key=lambda one: (one.known, one.seconds))
        yield Measurement("curve_held_known", longest.known)
        if longest.memory_share is not None:
            yield Measurement("curve_held_memory_share", min(longest.memory_share, 1.0))


def _dips(shapes: Sequence[Shape], told: Recorded) -> Iterator[Measurement]:
    """Yield what is known of dips and periods, of the GPU that idles most in them."""
    dipping = [one for one in shapes if one.dips]
    periodic = [one for one in shapes if one.period]
    if not dipping:
        yield Measurement("curve_dip_interval_s", 0.0)
    else:
        worst = max(dipping, key=lambda one: one.parts["dip"]).dips
        assert worst
        yield Measurement("curve_dip_interval_s", worst.interval_s)
        yield Measurement("curve_dip_s", worst.length_s)
        yield Measurement("curve_dips", float(np.mean([one.dips.count for one in dipping if one.dips])))
        found = steps.event(told.steps, worst.interval_s)
        if found:
            yield Measurement("curve_dip_event", found)
        if worst.period is None and worst.aliased and found != "step":
            yield Measurement("curve_alias_period_s", worst.interval_s)
    if periodic:
        best = max(periodic, key=lambda one: (one.parts["dip"], one.samples.total_s)).period
        assert best
        yield Measurement("curve_alias_period_s" if best.aliased else "curve_period_s", best.seconds)
        yield Measurement("curve_period_score", best.score)


def _levels(shapes: Sequence[Shape]) -> Iterator[Measurement]:
    """Yield how high utilization is, and how it spreads: medians of the GPUs that idle so, else of all."""
    moving = [one for one in shapes if one.parts["flat"] + one.parts["fluctuating"] > 0]
    spreads = [one.spread for one in moving or shapes if one.spread]
    flat = sum(one.parts["flat"] > 0 for one in shapes)
    if flat:
        yield Measurement("curve_flat_gpus", flat)
    if spreads:
        names = ("curve_p05_share", "curve_level_share", "curve_p95_share", "curve_spread_share")
        for name, value in zip(names, np.median(np.array(spreads), axis=0), strict=True):
            yield Measurement(name, float(value) / 100)


def _hollow(shapes: Sequence[Shape], total: float) -> Iterator[Measurement]:
    """Yield how much multiprocessors and tensor cores work while GPUs count as utilized."""
    found = [(one, told) for one in shapes if (told := activity(one)) is not None]
    if not found:
        return
    worst = max(found, key=lambda item: item[1].hollow_s)[0]
    hollow = sum(told.hollow_s for _, told in found)
    place = _place(worst, worst.low, worst.high) if hollow else ()
    yield Measurement("curve_hollow_share", min(hollow / total, 1.0), locations=place)
    for name in ("sm_active_share", "tensor_active_share", "dram_active_share"):
        values = [(told.shares[name], told.utilized_s) for _, told in found if name in told.shares]
        if values:
            mean = float(np.average([v for v, _ in values], weights=[w for _, w in values]))
            yield Measurement(f"curve_{name}", mean)


def _lagging(shapes: Sequence[Shape], lag: Lag | None, together: float | None) -> Iterator[Measurement]:
    """Yield how a GPU is apart from its peers; that none is, where there are several."""
    if len(shapes) < 2:
        return
    yield Measurement("curve_together_share", together or 0.0)
    one = lag.shape if lag else None
    named: tuple[tuple[str, Value], ...] = (("curve_lag_gpu", one.gpu.subject if one else "none"),)
    if lag:
        named += (
            ("curve_lag_counter", lag.counter),
            ("curve_lag_value", lag.value),
            ("curve_lag_peers", lag.peers),
            ("curve_lag_windows_share", lag.windows_share),
            ("curve_lag_gpus", lag.gpus),
        )
    if lag is None or lag.counter != "utilization":
        yield Measurement("curve_lag_slow_share", lag.slow_share if lag else 0.0)
    place = _place(one, 0, len(one.samples)) if one else ()
    for name, value in named:
        yield Measurement(name, value, locations=place)


def hosts(series: Sequence[Series]) -> Iterator[Measurement]:
    """Yield how busy the hosts' CPUs are, and how much they wait for I/O, means of hosts."""
    for name, counter in (("curve_cpu_busy_share", "cpu_busy_percent"), ("curve_io_wait_share", "io_wait_percent")):
        means = [
            samples(one, low=0.0, high=100.0).mean
            for one in series
            if one.name == counter and np.isfinite(one.value).any()
        ]
        if means:
            yield Measurement(name, float(np.mean(means)) / 100)
