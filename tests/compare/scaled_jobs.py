"""Jobs on several numbers of GPUs: simulated ones with their traces, and run directories made from a few words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import world
from tests.recorded import Process, run_directory
from whyidle.model.evidence import Run
from whyidle.read import load
from world import kineto
from world.simulation import run

BASE = world.healthy("cnn", "A100", 1, seed=1, steps=8)
VARIES = (-0.5, -0.25, 0.0, 0.25, 0.5)  # ms, from step to step


def simulated(folder: Path, gpus: tuple[int, ...] = (1, 4), **fault: Any) -> list[tuple[str, Run]]:
    """Return traces of a job on so many GPUs; the fault is only where there are several."""
    runs = []
    for count in gpus:
        place = folder / f"gpus-{count}"
        place.mkdir()
        for process in run(replace(BASE, ranks=count, **(fault if count > 1 else {}))).ranks:
            kineto.write(process, place / kineto.file_name(process.rank))
        runs.append((place.name, load([place])))
    return runs


def watched(
    folder: Path,
    ranks: int,
    *,
    data: float = 1,
    compute: float = 30,
    samples: int = 32,
    steps: int = 60,
    on_gpu: bool = True,
    **settings: Any,
) -> Path:
    """Write a run directory of a job with so many ranks: ms for data and the backward pass, samples per rank."""
    processes = []
    for rank in range(ranks):
        process = Process(rank=rank, pid=4000 + rank, world_size=ranks)
        for name, value in {
            "model": "Net",
            "parameters": 1000,
            **({} if on_gpu else {"device": "cpu"}),
            **settings,
        }.items():
            process.setting(name, value)
        for step in range(steps):
            process.batch(data, samples=samples, workers=True, idle=data if on_gpu else None)
            process.wait(1)
            process.forward(20)
            process.backward(compute + VARIES[step * 7 % 5])
            process.step(5)
            process.wait(4)
        processes.append(process)
    return run_directory(folder, *processes)


def sizes(folder: Path, *jobs: dict[str, Any]) -> list[tuple[str, Run]]:
    """Return run directories of such jobs, each named for its ranks."""
    runs = []
    for place, job in enumerate(jobs):
        path = watched(folder / f"{place}-gpus-{job['ranks']}", **job)
        runs.append((path.name, load([path])))
    return runs
