"""Curves made with numpy, for tests: what a recorder would have read, as a reader hands it on."""

from __future__ import annotations

import numpy as np

from whyidle.model.evidence import Curve, Fact, Run, Series

START = 1_700_000_000_000_000_000


def series(name, values, device=0, node="", interval=1.0, start=0.0, instance=""):
    values = np.asarray(values, np.float64)
    time = START + ((start + np.arange(len(values)) * interval) * 1e9).astype(np.int64)
    return Series(name, node, time, values, device, instance=instance)


def gpus(*columns, interval=1.0, node="", **more):
    """Return the utilization of GPUs 0, 1, …, and other counters as keywords, each a list by GPU."""
    found = [series("utilization_percent", values, i, node, interval) for i, values in enumerate(columns)]
    for name, lists in more.items():
        found += [series(name, values, i, node, interval) for i, values in enumerate(lists)]
    return found


def run(*found, path="gpu.txt", facts=(), **more):
    return Run(
        curves=(Curve(path, "nvidia_smi_dmon", tuple(found), facts=tuple(Fact(*fact) for fact in facts), **more),)
    )


def values(curves):
    """Return what is measured of the whole, by name."""
    return {m.name: m.value for m in curves.measurements if not m.subject}


def wave(count, period, busy, high=100.0, low=0.0, interval=1.0):
    """Return a slow rectangular wave."""
    phase = np.arange(count) * interval % period / period
    return np.where(phase < busy, high, low)
