"""Curves as somebody's counters could have recorded them, made by tests from numbers."""

from __future__ import annotations

import numpy as np

from whyidle.model.evidence import Curve, Fact, Series

S = 1_000_000_000
WALL = 1_700_000_000 * S  # 2023-11-14 22:13:20 UTC


def gpu(values, *, device=0, every=1.0, start=WALL, name="utilization_percent", node="", instance=""):
    """Return a counter of a GPU, sampled regularly."""
    value = np.asarray(values, np.float64)
    time = start + (np.arange(len(value)) * every * S).astype(np.int64)
    return Series(name, node, time, value, device, instance=instance)


def curve(*series, path="gpu.txt", kind="nvidia-smi dmon", names="NVIDIA A100-SXM4-80GB", **more):
    """Return what one file holds."""
    subjects = dict.fromkeys(one.subject for one in series if one.device is not None)
    facts = tuple(Fact("name", names, "nvidia-smi", subject) for subject in subjects) if names else ()
    return Curve(path, kind, tuple(series), facts=facts, **more)


def trainer(step_s, data_s=None, *, path="train.log", kind="trainer log", start=WALL):
    """Return what a trainer printed of its steps, s."""
    step = np.asarray(step_s, np.float64)
    time = start + np.cumsum(step * S).astype(np.int64)
    series = [Series("step_time_s", "", time, step)]
    if data_s is not None:
        series.append(Series("data_wait_s", "", time, np.asarray(data_s, np.float64)))
    return Curve(path, kind, tuple(series), step_log=True)
