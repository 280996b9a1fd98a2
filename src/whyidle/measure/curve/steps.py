"""What a trainer printed of its steps: how long they take, how long they wait for data, when it saved and evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.curve.samples import at
from whyidle.model.evidence import Floats64, Series
from whyidle.model.measurement import Measurement

AGREES: Final = 0.05  # of the interval (method 3.2)
MULTIPLES: Final = 3  # of a known interval, that a dip's may be: more agree by chance
WHOLE_STEPS: Final = 1.5  # intervals: a longer step is sampled more than once
SAME_PART: Final = 0.5  # of a step, by which samples have to move through it
FIRST: Final = 4  # logged steps, from which the first is dropped: it compiles and warms up


def known(one: Series) -> Floats64:
    """Return the values that were measured."""
    return one.value[np.isfinite(one.value)]


def step_time(steps: Sequence[Series]) -> float | None:
    """Return the median step in s; None where no trainer told."""
    columns = [values for one in steps if one.name == "step_time_s" and len(values := _steady(known(one)))]
    return float(np.median(np.concatenate(columns))) if columns else None


def _steady(values: Floats64) -> Floats64:
    """Return the steps after the first, where there are enough."""
    values = values[values > 0]
    return values[1:] if len(values) >= FIRST else values


def measure(steps: Sequence[Series]) -> Iterator[Measurement]:
    """Yield what the trainers' logs tell of steps."""
    times = [one for one in steps if one.name == "step_time_s" and len(known(one))]
    median = step_time(steps)
    if median is not None:
        yield Measurement("curve_step_time_s", median)
        yield Measurement(
            "curve_step_time_mean_s", float(np.mean(np.concatenate([_steady(known(one)) for one in times])))
        )
    count = _count(steps)
    if count:
        yield Measurement("curve_steps", count)
    every = _every(steps)
    if every:
        yield Measurement("curve_log_every", every)
    share = _data_wait(steps, times)
    if share is not None:
        yield Measurement("curve_data_wait_share", share)


def _count(steps: Sequence[Series]) -> int:
    """Return how many steps the logs hold, of the log with most of them: by their numbers, else by their lines."""
    numbers = [values for one in steps if one.name == "step" and len(values := known(one)) > 1]
    counted = [int(values.max() - values.min()) + 1 for values in numbers if (np.diff(values) > 0).all()]
    lines = [len(known(one)) for one in steps if one.name in ("step_time_s", "data_wait_s")]
    return max([*counted, *lines], default=0)


def same_part(steps: Sequence[Series], interval_s: float, seconds: float) -> bool:
    """Say whether regular samples see the same part of every step, so that their mean is not that of steps.

    That is so where steps take an interval, or a whole part of it, and neither the difference nor how steps vary moves
    the sample through half a step in this time (a random walk: deviation times the root of the number of steps). A log
    that always writes the same number says so only as exactly as it writes.
    """
    columns = [values for one in steps if one.name == "step_time_s" and len(values := _steady(known(one)))]
    step = step_time(steps)
    if not step or interval_s <= 0 or step > WHOLE_STEPS * interval_s:
        return False
    values = np.concatenate(columns)
    count = seconds / step
    moved = abs(1 / step - round(interval_s / step) / interval_s) * seconds
    spread = float(np.std(values)) / step * np.sqrt(count)
    return bool(max(moved, spread, _resolution(values) / 2 / step * count) < SAME_PART)


def _resolution(values: NDArray[np.float64]) -> float:
    """Return the last digit of a log's times, s; 0 where they differ, so that their mean tells more than each."""
    distinct = np.unique(values)
    if len(distinct) > 2:
        return 0.0
    decimals = (len(f"{value:.9f}".rstrip("0").partition(".")[2]) for value in distinct)
    return float(10.0 ** -max(decimals, default=0))


def _every(steps: Sequence[Series]) -> float:
    """Return how many steps there are from one that is logged to the next, median of all logs; 0 where none is told."""
    between = [np.diff(known(one)) for one in steps if one.name == "step"]
    forward = np.concatenate([column[column > 0] for column in between]) if between else np.empty(0)
    return float(np.median(forward)) if len(forward) else 0.0


def _data_wait(steps: Sequence[Series], times: Sequence[Series]) -> float | None:
    """Return the share of steps that is data wait; None where no log has both.

    A wait that is longer than its step is not part of it: then the step and the wait are the whole.
    """
    waited = whole = 0.0
    for one in steps:
        step = next((s for s in times if (s.node, s.device, s.pid) == (one.node, one.device, one.pid)), None)
        if one.name != "data_wait_s" or step is None:
            continue
        spacing = float(np.median(np.diff(one.time))) / 1e9 if len(one.time) > 1 else 0.0
        took, wait = at(step, one.time, max(spacing, 1e-3)), one.value
        both = np.isfinite(took) & np.isfinite(wait) & (wait >= 0) & (took > 0)
        if not both.any():
            continue
        took, wait = took[both], wait[both]
        apart = np.mean(wait > took) > 0.5
        waited += float(wait.sum())
        whole += float(np.sum(took + wait) if apart else np.maximum(took, wait).sum())
    return min(waited / whole, 1.0) if whole > 0 else None


def event(steps: Sequence[Series], interval_s: float) -> str:
    """Return what the trainer's log says comes at an interval: checkpoint, evaluation, step; "" where nothing does."""
    for name in ("checkpoint", "evaluation"):
        for one in steps:
            times = one.time[one.value > 0] if one.name == name else np.empty(0, np.int64)
            if len(times) > 2 and _agrees(interval_s, float(np.median(np.diff(times))) / 1e9):
                return name
    median = step_time(steps)
    return "step" if median and _agrees(interval_s, median) else ""


def _agrees(interval_s: float, known_s: float) -> bool:
    times = max(round(interval_s / known_s), 1) if known_s > 0 else MULTIPLES + 1
    return times <= MULTIPLES and abs(interval_s - times * known_s) <= AGREES * interval_s
