"""What predicting costs: CPU time and memory of a report with predictions and without, for jobs of more and more steps.

Each report is made in a process of its own, since memory is the peak of a process.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scoring.jobs import simulator

LAUNCHES = 5_000  # of a step
CPU_LIMIT_S = 6.0  # for a report with predictions, less what the same report takes without
STEPS = (5, 10, 20)
SECONDS = 600

REPORT = """
import json, resource, sys, time
import whyidle
import whyidle.diagnosis
began = time.process_time()
report = whyidle.diagnose([sys.argv[1]], predict=sys.argv[2] == "True")
took = time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
fixes = [fix for finding in report.findings for fix in finding.fixes]
print(json.dumps({"cpu_s": took, "peak_mb": peak, "rules": [finding.rule for finding in report.findings],
    "fixes": len(fixes), "priced": sum(fix.predicted is not None for fix in fixes)}))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """A job, and what its report costs. Memory in MB at the peak of the process."""

    steps: int
    launches_per_step: float
    events: int
    rules: int
    fixes: int
    priced: int
    cpu_s: float
    cpu_s_without: float
    peak_mb: float
    peak_mb_without: float

    @property
    def predicting_s(self) -> float:
        return self.cpu_s - self.cpu_s_without

    @property
    def bytes_per_event(self) -> float:
        """Return what predicting adds to the peak."""
        return max(self.peak_mb - self.peak_mb_without, 0.0) * 2**20 / self.events


@dataclass(frozen=True, slots=True)
class Speed:
    """Costs of jobs with more and more steps."""

    costs: tuple[Cost, ...]

    @property
    def slowest_s(self) -> float:
        return max(cost.predicting_s for cost in self.costs)


def job(steps: int) -> Any:
    """Return a job of so many launches per step with much wrong: many rules speak of it."""
    world = simulator()
    every = importlib.import_module("world.job").Every
    usual = world.healthy("gpt", "A100", steps=steps)
    work = replace(usual.work, compiled=False, batch_scale=0.25, recompute_share=0.3)
    data = replace(usual.data, workers=0, batch_us=9_000.0)
    return replace(
        usual, work=work, data=data, looped_share=1.0, micro_steps=10, copy="pageable", reads=16, reads_by="scalar",
        after_read_us=50.0, checkpoint=every(3, 90_000.0), gc=every(2, 60_000.0), churn=every(2, 60_000.0, 6),
    )  # fmt: skip


def score_speed(steps: Sequence[int] = STEPS) -> Speed:
    return Speed(tuple(map(cost, steps)))


def cost(steps: int) -> Cost:
    """Simulate a job and make its report with predictions and without."""
    wanted = job(steps)
    kineto, simulation = importlib.import_module("world.kineto"), importlib.import_module("world.simulation")
    with tempfile.TemporaryDirectory() as folder:
        done = simulation.run(wanted)
        path = Path(folder) / kineto.file_name(0)
        kineto.write(done.ranks[0], path)
        events = len(importlib.import_module("whyidle").load([path]).traces[0].host_slices) + done.launched
        with_, without = (_report(path, predict=predict) for predict in (True, False))
    return Cost(
        steps=steps,
        launches_per_step=done.launched / (steps + done.job.warmup),
        events=events,
        rules=len(with_["rules"]),
        fixes=with_["fixes"],
        priced=with_["priced"],
        cpu_s=with_["cpu_s"],
        cpu_s_without=without["cpu_s"],
        peak_mb=with_["peak_mb"],
        peak_mb_without=without["peak_mb"],
    )


def _report(path: Path, *, predict: bool) -> dict[str, Any]:
    command = [sys.executable, "-c", REPORT, str(path), str(predict)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    report: dict[str, Any] = json.loads(ended.stdout)
    return report
