"""Charts as recordings give them, made up: gaps, bands, many devices, marks, a distribution."""

from __future__ import annotations

import numpy as np

from whyidle.model.finding import Report, RunInfo, Summary
from whyidle.model.picture import Axis, Chart, Lane, Line, Mark, Picture, Timeline

SAMPLES = 1200  # seconds
CLOCK = "start of the recording"
PAUSES = tuple(Mark("checkpoint", f"checkpoint {n + 1}", 280.0 * n + 250, 280.0 * n + 275) for n in range(4))


def gpus(count: int, samples: int = SAMPLES, axis: Axis = "s") -> Chart:
    """Utilization of some GPUs, one sample a second, with a stretch that nobody measured and pauses for checkpoints."""
    rng = np.random.default_rng(7)
    x = np.arange(samples, dtype=np.float64)
    lines = []
    for gpu in range(count):
        y = np.clip(93 - 4 * gpu + rng.normal(0, 5, samples), 0, 100)
        for mark in PAUSES:
            y[(x >= mark.start) & (x < mark.end)] = 0.0
        y[700:760] = np.nan
        lines.append(Line(f"GPU {gpu}", y))
    event = Mark("event", "loader restarted", 610.0, 610.0)
    return Chart("GPU utilization", "%", axis, x, tuple(lines), (*PAUSES, event), "run", CLOCK, upper=100.0)


def banded(title: str, unit: str, middle: float, upper: float | None = None) -> Chart:
    """A quantity of which every point is a minute."""
    rng = np.random.default_rng(len(title))
    x = np.arange(0.0, SAMPLES, 12)
    y = middle * (1 + 0.1 * np.sin(x / 90) + rng.normal(0, 0.03, len(x)))
    line = Line("GPU 0", y, y * 0.9, y * 1.06)
    note = "Every point is the mean of 12 samples, the band their least and largest."
    return Chart(title, unit, "s", x, (line,), PAUSES, "run", CLOCK, note, upper)


def by_step() -> Chart:
    """Step time, and the wait for data in it."""
    rng = np.random.default_rng(3)
    x = np.arange(1.0, 201.0)
    took = 120 + rng.gamma(2, 6, len(x)) + np.where(x % 50 == 0, 180, 0)
    lines = (Line("step", took), Line("wait for data", took * 0.4 * rng.uniform(0.7, 1.2, len(x))))
    marks = (Mark("evaluation", "evaluation", 100.0, 104.0), Mark("shape", "every 50 steps", 50.0, 50.0))
    return Chart("Step time", "ms", "step", x, lines, marks, "steps", timeline="trace.json")


def spread() -> Chart:
    """Step times before and after a change."""
    x = np.arange(0.1, 0.2, 0.002)
    before = np.round(300 * np.exp(-(((x - 0.165) / 0.009) ** 2)))
    after = np.round(320 * np.exp(-(((x - 0.121) / 0.006) ** 2)))
    marks = (Mark("event", "median after", 0.121, 0.121), Mark("event", "median before", 0.165, 0.165))
    return Chart("Step times", "steps", "step_time_s", x, (Line("before", before), Line("after", after)), marks)


def steps_lane() -> Timeline:
    """Two hundred steps of 130 ms."""
    start = np.arange(200, dtype=np.int64) * 130_000_000
    names = tuple(f"step {number}" for number in range(1, 201))
    code, depth = np.arange(200, dtype=np.int32), np.zeros(200, np.uint8)
    lane = Lane("steps", "step", start, start + 130_000_000, code, depth, 200, np.zeros(0, np.float32))
    return Timeline("rank 0", "trace.json", 0, 0, 26_000_000_000, names, (lane,))


def report() -> Report:
    """A report with every sort of chart."""
    charts = (
        gpus(1),
        banded("SM clock", "MHz", 1300.0),
        banded("Power", "W", 280.0, 400.0),
        banded("GPU memory in use", "GiB", 31.0, 79.6),
        banded("Temperature", "°C", 62.0),
        banded("Host CPU", "%", 44.0, 100.0),
        banded("Disk read", "MB/s", 240.0),
        by_step(),
        spread(),
    )
    return drawing(*charts)


def drawing(*charts: Chart) -> Report:
    """A report that draws these."""
    summary = Summary("Your GPU was idle 44% of the time.")
    return Report(RunInfo(), summary, picture=Picture((steps_lane(),), charts))
