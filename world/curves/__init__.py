"""Curves of long jobs: counters of GPUs and logs of trainers over 10 to 60 minutes, with what is true of each job.

A job is a light model of its steps (training.py), exact to the piece; sensors see it through their windows
(sampling.py) and files are written as tools write them. No kernel is simulated here: only when a GPU is busy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from world.curves import exporters, step_log, tables
from world.curves.kinds import KINDS, Frame, Kind, Made, disturbed
from world.curves.sampling import PRODUCTS, Product, Samples, read, times
from world.curves.truth import accepted, shapes

__all__ = ["KINDS", "SEVERITIES", "Asked", "asked", "write", "write_one"]

SEVERITIES = (0.05, 0.1, 0.2, 0.3, 0.4)
SECONDS = (600.0, 1200.0, 1800.0, 3600.0)
INTERVALS = {"dmon": (1.0,), "query": (1.0, 2.0, 5.0), "dcgm": (5.0, 10.0, 30.0)}  # s; others 60
FILES = {
    "dmon": "dmon.txt",
    "query": "gpu.csv",
    "dcgm": "dcgm.prom",
    "minutes": "gpu.csv",
    "cloudwatch": "metrics.json",
}
LOGGED = 0.4  # of the jobs have a log beside the curve
DISTURBED = 0.5  # of the jobs that have no pauses of their own
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """One job to write."""

    name: str
    kind: Kind
    table: str
    product: Product
    interval_s: float
    seconds: float
    gpus: int
    severity: float
    seed: int


def asked(count: int, seed: int) -> list[Asked]:
    """Return what to write: kinds and severities in turn, everything else by chance."""
    kinds, turns = tuple(KINDS.values()), count // len(KINDS) + 1
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(len(SEVERITIES)), (len(kinds), turns)), axis=1)
    return [
        _one(i, kinds[i % len(kinds)], SEVERITIES[order[i % len(kinds), i // len(kinds)]], seed) for i in range(count)
    ]


def _one(number: int, kind: Kind, severity: float, seed: int) -> Asked:
    rng = np.random.default_rng((seed, number))
    pick: Any = rng.choice
    fine = [name for name in kind.tables if name in INTERVALS or kind.intervals[1] >= 60]
    table = str(pick(fine))
    intervals = [s for s in INTERVALS.get(table, (60.0,)) if kind.intervals[0] <= s <= kind.intervals[1]]
    interval = float(pick(intervals))
    long = [s for s in SECONDS if s >= 60 * interval]
    return Asked(
        name=f"{number:04d}-{kind.name}-{table}",
        kind=kind, table=table, product=PRODUCTS[int(rng.integers(len(PRODUCTS)))], interval_s=interval,
        seconds=float(pick(long)), gpus=int(pick(kind.gpus)), severity=max(severity, kind.least) if kind.shape else 0.0,
        seed=int(rng.integers(2**31)),
    )  # fmt: skip


def write(folder: Path, count: int, seed: int = 0) -> dict[str, Any]:
    """Write so many jobs, a folder each, and truth.json; return the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {
        "schema_version": SCHEMA_VERSION,
        "jobs": [write_one(folder / job.name, job) for job in asked(count, seed)],
    }
    (folder / "truth.json").write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    return known


def made(job: Asked, rng: Generator) -> Made:
    """Return the job as it runs."""
    frame = Frame(job.seconds, job.interval_s, job.gpus, job.severity, rng)
    plain = job.kind.make(frame)
    return disturbed(frame, plain) if job.kind.part != "pause" and rng.random() < DISTURBED else plain


def sampled(job: Asked, done: Made, rng: Generator) -> list[Samples]:
    """Return what is read of each GPU; minutes are means of seconds."""
    interval = min(job.interval_s, 1.0) if job.table in {"minutes", "cloudwatch"} else job.interval_s
    time = times(done.training, interval, rng, missing=float(rng.choice((0.0, 0.002, 0.01))))
    if job.table == "dmon":
        time = time[np.append(True, np.diff(time // 1) > 0)]  # it prints whole seconds, each once
    samples = [read(done.training, job.product, gpu, time, rng) for gpu in range(job.gpus)]
    failed = float(rng.choice((0.0, 0.0, 0.003)))
    return [
        replace(one, utilization=np.where(rng.random(len(time)) < failed, np.nan, one.utilization)) for one in samples
    ]


def write_one(folder: Path, job: Asked) -> dict[str, Any]:
    """Write the files of one job into a new folder; return what is true of it."""
    rng = np.random.default_rng(job.seed)
    done = made(job, rng)
    samples = sampled(job, done, rng)
    folder.mkdir()
    text = {
        "dmon": lambda: tables.dmon(samples, job.product),
        "query": lambda: tables.query(samples, job.product, units=bool(rng.integers(2))),
        "minutes": lambda: tables.minutes(samples, job.product),
        "dcgm": lambda: exporters.dcgm(samples, job.product),
        "cloudwatch": lambda: exporters.cloudwatch(samples, job.product),
    }[job.table]()
    (folder / FILES[job.table]).write_text(text, "utf-8")
    style = str(rng.choice(tuple(step_log.STYLES))) if rng.random() < LOGGED else None
    if style is not None:
        every = max(min(10, done.training.steps // 30), 1)
        log = step_log.write(done.training, style, every=every, stamped=bool(rng.integers(4)))
        (folder / "train.log").write_text(log, "utf-8")
    return _truth(job, done, style)


def _truth(job: Asked, done: Made, style: str | None) -> dict[str, Any]:
    training, kind = done.training, job.kind
    window = 60.0 if job.interval_s == 60 else job.product.window_s
    right = accepted(kind, done, job.interval_s, window)
    if style in step_log.TELL_WAITS and kind.shape and training.part("data", 0) >= 0.5 * job.severity:
        right.append("curve.data_wait")  # the log is of rank 0, and settles what the shape suggests
    steps, held = training.steps, shapes(kind, done, job.severity)
    return {
        "name": job.name,
        "kind": kind.name,
        "format": job.table,
        "files": sorted([FILES[job.table], *(["train.log"] if style else [])]),
        "gpu": job.product.name,
        "gpus": job.gpus,
        "seconds": job.seconds,
        "sampling": {"interval_s": job.interval_s, "window_s": window},
        "asked": job.severity,
        "severity": held[kind.shape] if kind.shape else 0.0,
        "shapes": held,
        "primary": kind.shape or None,
        "accepted": right,
        "cause": kind.cause or None,
        "period_s": done.period_s,
        "step_time_s": float(np.median(training.step_s[:steps])) if steps else None,
        "steps": steps,
        "log": style,
        "devices": [{"device": gpu, "busy_share": training.busy(gpu).mean} for gpu in range(job.gpus)],
    }
