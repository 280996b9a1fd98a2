"""A world with known truth: training jobs that are simulated, with faults of known kind and known cost.

A job is run twice with one thing different, and the difference in step time is what the fault costs. The traces that a
profiler would have recorded go to a folder; what is true of them goes beside it. Nothing here is imported by whyidle,
nothing here imports whyidle, and nothing here is in its wheel. Run `python -m world --help`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from world import kineto, truth
from world.calibrate import Calibrated, UnreachableError, calibrate
from world.controls import CONTROLS, MISSPECIFIED
from world.families import FAMILIES as _NETS
from world.faults import FAULTS
from world.gains import gains
from world.job import Data, Job
from world.machine import GPUS
from world.nets import Work
from world.process import Process
from world.simulation import Run, run, step_us

__all__ = [
    "CONTROLS",
    "FAMILIES",
    "FAULTS",
    "GPUS",
    "MISSPECIFIED",
    "Job",
    "UnreachableError",
    "healthy",
    "simulate",
]

FAMILIES = tuple(_NETS)
SCHEMA_VERSION = 1


def healthy(family: str = "resnet", gpu: str | None = None, ranks: int = 1, seed: int = 0, steps: int = 10) -> Job:
    """Return a job without faults. The seed also decides what is a matter of taste: GPU, compiled, how it logs."""
    name = gpu or tuple(GPUS)[(seed + FAMILIES.index(family)) % len(GPUS)]
    pictures = family in {"cnn", "resnet", "diffusion"}
    network = Work(precision="fp16" if GPUS[name].capability[0] < 8 else "bf16", compiled=pictures or seed % 2 == 1)
    return Job(
        family=family, gpu_name=name, ranks=ranks, seed=seed, steps=steps, work=network,
        data=Data(batch_us=2_000.0),
        copy="stream" if pictures else "pinned", copy_scale=0.25 if pictures else 1.0,
        deferred_reads=int(seed % 3 != 2), nanoseconds=seed % 2 == 0, stacks=seed % 4 == 3,
    )  # fmt: skip


def simulate(
    family: str = "resnet",
    faults: Mapping[str, float] | None = None,
    control: str | None = None,
    misspecified: str | None = None,
    *,
    gpu: str | None = None,
    ranks: int = 1,
    seed: int = 0,
    steps: int = 10,
    out: Path | None = None,
    **recording: Any,
) -> dict[str, Any]:
    """Simulate a job, write its traces into `out` and what is true of it into `out`.truth.json; return the truth.

    Args:
        family: one of FAMILIES.
        faults: severity by the id of a fault; severity is the share of the step time that its cure saves.
        control: one of CONTROLS, a job that looks like a fault and has none.
        misspecified: one of MISSPECIFIED, a world that is not the one that whyidle expects.
        gpu: one of GPUS; the seed chooses by default.
        ranks: processes, each with one GPU.
        seed: of everything that is random.
        steps: steps that are recorded.
        out: a folder, made if it is not there; None writes nothing.
        recording: fields of Job that say how it is recorded: dialect, nanoseconds, stacks, shapes, marks.

    Raises:
        UnreachableError: a severity cannot be reached in this job, or a mis-specified world is no different for it.
    """
    old = recording.get("dialect") == "2021"
    job = replace(healthy(family, gpu or ("V100" if old else None), ranks, seed, steps), **recording)
    if old:
        job = replace(job, work=replace(job.work, compiled=False), stacks=False, nanoseconds=False)
    if control:
        job = CONTROLS[control].change(job, step_us(job))
    usual = job
    if misspecified:
        job = MISSPECIFIED[misspecified](job)
    found = calibrate(job, {FAULTS[name]: severity for name, severity in (faults or {}).items()})
    done = run(found.with_all())
    if misspecified and not job.missing and _same(done, run(replace(found, job=usual).with_all())):
        raise UnreachableError(f"{misspecified} changes nothing about this job.")
    known = _known(done, found, faults or {}, control, misspecified)
    if out is not None:
        write(done, known, out)
    return known


def _same(one: Run, other: Run) -> bool:
    return all(a.work == b.work and a.slices == b.slices for a, b in zip(one.ranks, other.ranks, strict=True))


def write(done: Run, known: dict[str, Any], out: Path) -> None:
    """Write traces and truth."""
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for process in done.ranks:
        kineto.write(process, out / kineto.file_name(process.rank))
    out.with_name(out.name + ".truth.json").write_text(json.dumps(known, indent=1) + "\n")


def _known(
    done: Run, found: Calibrated, asked: Mapping[str, float], control: str | None, misspecified: str | None
) -> dict[str, Any]:
    step = done.step_us
    faults = []
    for fault, amount in zip(found.faults, found.amounts, strict=True):
        without = step_us(found.without(frozenset({fault.id})))
        severity = {"asked": asked[fault.id], "severity": 1 - without / step}
        faults.append({"id": fault.id, **severity, "step_time_without_s": without / 1e6, "amount": amount})
    everything = frozenset(fault.id for fault in found.faults)
    job = done.job
    about = {"family": job.family, "gpu": job.gpu.name, "ranks": job.ranks, "seed": job.seed, "steps": job.steps}
    return {
        "schema_version": SCHEMA_VERSION,
        "simulated": True,
        "job": {**about, "settings": asdict(job)},
        "step_time_s": step / 1e6,
        "faults": faults,
        "calibrated": "together" if found.together else "alone",
        "step_time_without_all_s": step_us(found.without(everything)) / 1e6 if faults else None,
        "also": gains(found.with_all(), step, frozenset(asked)),
        "control": control,
        "misspecified": misspecified,
        "devices": [_device(process) for process in done.ranks],
    }  # fmt: skip


def _device(process: Process) -> dict[str, Any]:
    account = truth.account(process)
    window = account.end - account.start
    return {
        "rank": process.rank,
        "device": process.rank % 8,
        "window_s": window / 1e6,
        "busy_share": account.busy / window,
        "idle_by_cause": {cause: us / window for cause, us in account.idle.items()},
        "collective_wait_s": account.collective_wait / 1e6,
    }
