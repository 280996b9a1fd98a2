"""CPUs that other programs of the machine use: what they leave for the job, and what to say and do where that is much.

A job that starts more processes gets more of a full machine than what was free, but not all that it may use: the
scheduler shares out CPUs among processes, or among groups of them. Plans take the middle of these two.
"""

from __future__ import annotations

import math

from whyidle.model.finding import Edit, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Threshold

READ = ("cpus_allowed", "cpus_online", "cpus_taken", "ranks_on_machine")

MUCH = Threshold(0.2, "of cpus_allowed", source="judgement: below is what services of a machine use, or a short visit")
APPLIES = Threshold(0.25, "probability", source="judgement: 0.83 to 1.66 iterations/s in one public case")
RESIDUAL = Threshold(0.3, "of the wait", source="judgement: what the job's own CPU time takes remains")


def free(m: Measurements) -> float | None:
    """Return the CPUs that other programs leave of those that the job may use; None if not measured."""
    if "cpus_allowed" not in m:
        return None
    allowed = m.number("cpus_allowed")
    if "cpus_taken" not in m or "cpus_online" not in m:
        return allowed
    return max(min(allowed, m.number("cpus_online") - m.number("cpus_taken")), 0.0)


def much(m: Measurements) -> bool:
    """Say whether other programs use many of the CPUs that the job may use."""
    left = free(m)
    return left is not None and m.number("cpus_allowed") - left >= MUCH * m.number("cpus_allowed") > 0


def to_have(m: Measurements) -> float | None:
    """Return the CPUs that the job gets if it can use them all; None if not measured."""
    left = free(m)
    if left is None or not much(m):
        return m.number("cpus_allowed") if left is not None else None
    allowed = m.number("cpus_allowed")
    alike = m.number("cpus_online") * allowed / (allowed + math.ceil(m.number("cpus_taken")))
    return (left + max(min(alike, allowed), left)) / 2


def per_rank(m: Measurements) -> float | None:
    """Return the part of these that one training process has with its workers; None if not measured."""
    cpus = to_have(m)
    return None if cpus is None else cpus / max(m.get("ranks_on_machine", 1.0), 1.0)


def at_most(m: Measurements, number: int) -> int:
    """Return a number of processes or threads of one rank, no more than it has CPUs."""
    cpus = per_rank(m)
    return number if cpus is None else max(min(number, int(cpus)), 1)


def said(m: Measurements) -> str:
    """Return what to say of other programs; empty where they take little, or nobody knows."""
    if not much(m):
        return ""
    return f"other programs use {m.number('cpus_taken'):.1f} of the machine's {m.number('cpus_online'):.0f} CPUs"


def run_elsewhere(m: Measurements) -> Fix:
    """Return the change that helps where others have the CPUs."""
    ranks = max(m.get("ranks_on_machine", 1.0), 1.0)
    all_of_them = {"cpus": m.number("cpus_allowed") / ranks} if "cpus_allowed" in m else {"prior": 1.0}
    return Fix(
        "run where CPUs are free: other programs use those of this job",
        "top -o %CPU   # who does: stop it, or start the job on another machine\n"
        "# a pod: as many CPUs in requests as in limits; in a batch system: --exclusive",
        effort="setting",
        applies=APPLIES,
        risk="CPUs that others do not have then",
        edits=(Edit("scale_host", {"cause": "data_wait"}, {"factor": RESIDUAL, "prior": 1.0} | all_of_them),),
    )
