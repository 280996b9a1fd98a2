"""This machine, as far as a sweep has to know it: its GPUs and what they cost, its CPUs and memory."""

from __future__ import annotations

import os
from typing import Final

from whyidle.collect.asking import Asking
from whyidle.collect.machine import machine
from whyidle.collect.nvml import Gpus
from whyidle.model.hardware import one_price
from whyidle.sweep.budget import Rate
from whyidle.sweep.strategies import Machine

ANSWER_S: Final = 10.0  # that a driver has to answer
SHM: Final = "/dev/shm"  # noqa: S108 - through which workers hand over batches


def gpus_here() -> list[str]:
    """Return the names of the GPUs that a job started here may use; none where the driver does not answer."""
    found: list[str] = []

    def ask() -> None:
        gpus = Gpus(lambda _: None)
        gpus.open(0.0)
        found.extend(str(facts["name"] or "") for facts in gpus.facts() if facts["visible"] is not False)
        gpus.close()

    asking = Asking(ask)
    asking.start()
    asking.wait(ANSWER_S)
    return list(found)


def rate(price: float | None, source: str, names: list[str], per_cell: int | None) -> Rate:
    """Return what a cell costs by the hour.

    Args:
        price: US dollars per GPU-hour, as the user gave it; None is the list price, if there is one.
        source: where that price was given.
        names: of the GPUs here.
        per_cell: GPUs that a cell is given; None is all that are here.
    """
    gpus = per_cell or len(names) or None
    if price is not None:
        return Rate(price, source, gpus)
    listed = one_price(names)
    return Rate(gpus=gpus) if listed is None else Rate(listed.usd_per_gpu_hour, listed.source, gpus)


def this_machine() -> Machine:
    """Return what a job started here has to itself."""
    told = machine()
    bounds = [told.cpus, None if told.cpus_allowed is None else len(told.cpus_allowed), told.cpu_quota]
    try:
        shm = os.statvfs(SHM)
        shm_bytes = shm.f_frsize * shm.f_bavail
    except OSError:
        shm_bytes = None
    cpus = min((bound for bound in bounds if bound), default=None)
    return Machine(cpus=cpus, memory_bytes=told.memory_bytes, shm_bytes=shm_bytes)
