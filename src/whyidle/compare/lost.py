"""What the GPUs' time is lost to when there are more of them: shares of each run's time, and how they grew.

A step of n GPUs that lost nothing would take E T, E the efficiency. Of the T that it takes, a part takes c T, and took
c0 E T of what nothing is lost of: it grew by c - c0 E of the time. With what is in no part, that sums to 1 - E, which
is all that is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, fields
from statistics import mean
from typing import Final

from whyidle.measure import Measured
from whyidle.measure.late import members
from whyidle.model.measurement import Measurement, Measurements
from whyidle.model.scaling import Loss

LOST_DATA: Final = ("lost_data_zero_share", "lost_data_workers_share", "lost_data_first_share", "lost_data_other_share")


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of a run's time, 0-1; None is not measured."""

    communication: float | None = None
    imbalance: float | None = None
    input: float | None = None


def shares(measured: Measured, gpus: int) -> Shares:
    """Return what a run on so many GPUs spends on communication, on waiting for late ranks, and on waiting for data.

    One GPU has nobody to talk to. Of ranks that were not traced nobody knows whether the others talk or wait for them:
    then neither is told. Where the same ranks are late in every step all others wait for them: what those
    late ones spend in collectives is communication alone, and what they wait for data all wait for. Else it is somebody
    else each time, and the mean over ranks tells.
    """
    m = measured.measurements
    data = _data(m)
    if gpus == 1:
        return Shares(0.0, 0.0, data)
    traced = max(len(measured.analyses), len(measured.devices))
    if traced < gpus or "collective_exposed_share" not in m or "collective_wait_share" not in m:
        return Shares(input=data)
    late = members(str(m.one("late_ranks").value)) if "late_ranks" in m else frozenset()
    if not late:
        waits = min(m.number("collective_wait_share"), m.number("collective_exposed_share"))
        return Shares(m.number("collective_exposed_share") - waits, waits, data)
    named = {f"rank {rank}" for rank in late}
    talk = _mean(m.each("collective_exposed_share"), named, among=True)
    own = _mean(m.each("idle_data_wait_share"), named, among=False)
    of_data = m.get("late_data_share", 0.0)
    return Shares(talk, m.number("late_share") - of_data, None if data is None else own + of_data)


def split(efficiency: float, base: Shares, now: Shares) -> Loss:
    """Return what is lost against linear scaling, by what it is lost to."""
    parts: dict[str, float | None] = {}
    for part in fields(Shares):
        before, after = getattr(base, part.name), getattr(now, part.name)
        parts[part.name] = None if before is None or after is None else after - before * efficiency
    total = 1 - efficiency
    return Loss(total=total, unexplained=total - sum(part or 0.0 for part in parts.values()), **parts)


def _data(m: Measurements) -> float | None:
    """Return how much of the time a GPU waits for data; None where neither a log nor a trace tells."""
    lost = [m.number(name) for name in LOST_DATA if name in m]
    if lost:
        return sum(lost)
    return m.number("idle_data_wait_share") if "idle_data_wait_share" in m and "data_wait_share" in m else None


def _mean(of_ranks: Iterable[Measurement], named: Set[str], *, among: bool) -> float:
    """Return the mean over the ranks that are among those named, or over the others."""
    return mean([float(one.value) for one in of_ranks if (one.subject in named) == among] or [0.0])
