"""Sides of a comparison as a recording could have made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from whyidle.compare.arms import Repeat
from whyidle.compare.pace import Pace, Unit
from whyidle.judge import measured_of
from whyidle.model.evidence import Node, Run, Series, Value
from whyidle.model.finding import Finding, GpuCount, Report, RunInfo, Summary


def repeat(
    seconds: ArrayLike | None = None,
    *,
    source: str = "Optimizer.step",
    per: Unit = "step",
    samples: float | None = None,
    tokens: float | None = None,
    units: float | None = None,
    window_s: float | None = None,
    settings: Mapping[str, Value] | None = None,
    gpu: str = "",
    world_size: int | None = None,
    series: tuple[Series, ...] = (),
    host: str = "",
    findings: tuple[Finding, ...] = (),
    number: ArrayLike | None = None,
) -> Repeat:
    """Return a run of which only this is known; `samples` and `tokens` are per step."""
    pace = None if seconds is None else Pace(np.asarray(seconds, np.float64), source, per=per)
    if pace is not None and number is not None:
        pace = replace(pace, number=np.asarray(number, np.int64))
    mean = None if pace is None else float(pace.seconds.mean())
    summary = Summary(
        "",
        window_s=window_s,
        step_time_mean_s=mean,
        samples_per_s=samples / mean if samples and mean else None,
        tokens_per_s=tokens / mean if tokens and mean else None,
    )
    nodes = (Node(host, host, host, (), 0, 0),) if host else ()
    info = RunInfo(gpus=(GpuCount(gpu, 1),) if gpu else (), world_size=world_size, settings=settings or {})
    return Repeat(
        ("run",), Run(series=series, nodes=nodes), measured_of(Run()), Report(info, summary, findings), pace, units
    )


def steps(mean: float, count: int = 100, cv: float = 0.05, seed: int = 0) -> np.ndarray:
    """Return step times that vary independently of each other, s."""
    return np.random.default_rng(seed).normal(mean, cv * mean, count).clip(mean / 10)
