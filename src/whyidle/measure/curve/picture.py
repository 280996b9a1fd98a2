"""What a curve looks like: each GPU's measures, and as few points as a screen shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from whyidle.model.detail import CurvePicture
from whyidle.model.evidence import Curve, Floats64, Ints, Series
from whyidle.model.finding import DeviceBusy

POINTS: Final = 48  # of a picture: half a line of a terminal
SHOWN: Final = 8  # GPUs with a picture; of more the least busy, the median and the busiest

# What tells how busy a GPU is, the better first, and what makes a share of it.
BUSY: Final = {"utilization_percent": 0.01, "graphics_active_share": 1.0}

Key = tuple[str, int, str]  # host, device, instance


def pictures(curves: Sequence[Curve], devices: Sequence[DeviceBusy]) -> tuple[CurvePicture, ...]:
    """Return every GPU of these curves, by host and number, each counter from the longest series of it.

    Args:
        curves: that were measured.
        devices: how busy each GPU was, where that was measured.
    """
    known = {(device.node, device.device, device.instance): device for device in devices}
    busy = {key: device.busy_share for key, device in known.items()}
    gpus: dict[Key, dict[str, tuple[str, Series]]] = {}
    for curve in curves:
        for series in curve.series:
            if series.device is not None and series.pid is None and len(series.time):
                columns = gpus.setdefault((series.node, series.device, series.instance), {})
                if series.name not in columns or len(series.time) > len(columns[series.name][1].time):
                    columns[series.name] = (curve.path, series)
    shown = _shown(gpus.keys(), busy)
    bounds = _bounds(curves)
    return tuple(_picture(key, gpus[key], known.get(key), bounds if key in shown else None) for key in sorted(gpus))


def _shown(keys: Iterable[Key], busy: dict[Key, float]) -> set[Key]:
    ranked = sorted((key for key in keys if key in busy), key=lambda key: (busy[key], key))
    few = ranked if len(ranked) <= SHOWN else [ranked[0], ranked[len(ranked) // 2], ranked[-1]]
    return set(few)


def _bounds(curves: Sequence[Curve]) -> tuple[int, int]:
    """Return the time that all pictures show, so that what happens together stands together; (0, 0): each its own."""
    if len({curve.clock for curve in curves}) != 1:
        return 0, 0
    times = [
        series.time for curve in curves for series in curve.series if series.device is not None and len(series.time)
    ]
    return (min(int(time[0]) for time in times), max(int(time[-1]) for time in times)) if times else (0, 0)


def _picture(
    key: Key, columns: dict[str, tuple[str, Series]], told_of: DeviceBusy | None, bounds: tuple[int, int] | None
) -> CurvePicture:
    node, device, instance = key
    busy = None if told_of is None else told_of.busy_share
    name = next((name for name in BUSY if name in columns), next(iter(columns)))
    file, told = columns[name]
    points: tuple[float | None, ...] = ()
    if busy is not None and bounds is not None and name in BUSY and len(told.time) > 1:
        points = tuple(_points(told.time, told.value * BUSY[name], bounds))
    return CurvePicture(
        file,
        device,
        node,
        instance,
        window_s=int(told.time[-1] - told.time[0]) / 1e9,
        samples=int(np.count_nonzero(~np.isnan(told.value))),
        busy_share=busy,
        points=points,
        means={
            name: float(np.nanmean(series.value))
            for name, (_, series) in sorted(columns.items())
            if not np.isnan(series.value).all()
        },
        gpus=1 if told_of is None else told_of.gpus,
    )


def _points(time: Ints, share: Floats64, bounds: tuple[int, int]) -> Iterator[float | None]:
    """Yield the mean of each part of the time; of a short curve its samples; None where nothing was measured."""
    low, high = bounds if bounds[1] > bounds[0] else (int(time[0]), int(time[-1]))
    known = ~np.isnan(share)
    if len(time) <= POINTS or high <= low:
        yield from (
            float(one) if ok else None for one, ok in zip(np.clip(share, 0, 1)[:POINTS], known[:POINTS], strict=True)
        )
        return
    part = np.minimum(((time[known] - low) / (high - low) * POINTS).astype(np.int64), POINTS - 1)
    count = np.bincount(part, minlength=POINTS)
    total = np.bincount(part, weights=np.clip(share[known], 0, 1), minlength=POINTS)
    yield from (float(total[i] / count[i]) if count[i] else None for i in range(POINTS))
