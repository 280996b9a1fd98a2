"""Files in, verdict out: the one call that the command line and a notebook share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whyidle import cost
from whyidle.judge import judge
from whyidle.model.finding import Report
from whyidle.read import Progress, load


def diagnose(
    paths: str | Path | Sequence[str | Path],
    *,
    price: float | None = None,
    gpus: int | None = None,
    hours: float | None = None,
    progress: Progress | None = None,
) -> Report:
    """Say why the GPU was idle in a recorded run.

    Args:
        paths: files and folders with the evidence of one run: one path, or several.
        price: US dollars per GPU-hour; without it the list price of the GPU, where we know one.
        gpus: GPUs that the job rents; without it the world size, else the devices seen.
        hours: how long the whole job runs, for its total cost.
        progress: told (path, bytes done, bytes in all) while files are read.

    Raises:
        WhyIdleError: when there is nothing to read, or the numbers cannot be.
    """
    cost.check(usd_per_gpu_hour=price, gpus=gpus, hours=hours)
    return cost.price(judge(load(paths, progress)), price, gpus, hours)
