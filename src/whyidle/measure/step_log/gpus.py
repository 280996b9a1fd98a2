"""What NVML's counters tell of the job's GPUs while it was watched, by its own log or from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Node, Run, Value
from whyidle.model.finding import GpuCount
from whyidle.model.measurement import Measurement
from whyidle.model.throttle import POWER_CAP, THERMAL

BUSY_PERCENT: Final = 1.0

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """A GPU while it was watched: its counters by name, each of the same samples, and what it is."""

    columns: Mapping[str, Column]
    facts: Mapping[str, Value]

    def fact(self, name: str) -> float | None:
        value = self.facts.get(name)
        return None if value is None or isinstance(value, str) else float(value)

    def column(self, name: str) -> Column:
        return self.columns.get(name, np.empty(0))

    def while_busy(self, name: str) -> Column:
        column, busy = self.column(name), self.column("utilization_percent")
        column = column[busy >= BUSY_PERCENT] if len(column) == len(busy) else np.empty(0)
        return column[~np.isnan(column)]


@dataclass(frozen=True, slots=True, eq=False)
class NodeGpu(Gpu):
    """A GPU of a machine on which the job was watched, by NVML's number."""

    node: Node
    device: int


def counted(gpus: Sequence[Gpu]) -> Iterator[Measurement]:
    """Yield how busy GPUs are, what holds their clocks down, and who else is on them; nothing of what is not known."""
    yield from _means(gpus)
    yield from _limits(gpus)
    yield from _foreign(gpus)


def measure(run: Run, watches: Sequence[Watch]) -> Iterator[Measurement]:
    """Yield what is known of the GPUs that the job works on; of all of a machine's where NVML does not tell which."""
    gpus = _gpus(run, watches)
    here = of_job(gpus)
    if watches and any(w.on_gpu is False for w in watches):
        here = []
    for node in {id(gpu.node): gpu.node for gpu in gpus}.values():
        yield Measurement("gpus_on_host", sum(1 for gpu in gpus if gpu.node is node))
        break
    if here:
        yield from counted(here)


def models(run: Run, watches: Sequence[Watch]) -> tuple[GpuCount, ...]:
    """Return the GPUs that the job works on, by model."""
    if any(w.on_gpu is False for w in watches):
        return ()
    gpus = _gpus(run, watches)
    count: dict[str, int] = {}
    for gpu in of_job(gpus):
        name = str(gpu.facts.get("name", "unknown GPU"))
        count[name] = count.get(name, 0) + 1
    return tuple(GpuCount(name, number) for name, number in sorted(count.items()))


def of_job(gpus: Sequence[NodeGpu]) -> list[NodeGpu]:
    """Return the GPUs on which the job has processes; where NVML cannot tell, those of its own on which kernels ran."""
    used = [gpu for gpu in gpus if np.nansum(gpu.column("processes_of_job")) > 0]
    may = [gpu for gpu in gpus if gpu.fact("visible") != 0]
    return used or [gpu for gpu in may if np.nansum(gpu.column("utilization_percent")) > 0] or may


def _gpus(run: Run, watches: Sequence[Watch]) -> list[NodeGpu]:
    found: list[NodeGpu] = []
    for node in run.nodes:
        here = [w for w in watches if w.node is node]
        if not here:
            continue
        found += on_node(run, node, min(w.low for w in here), max(w.high for w in here))
    return found


def on_node(run: Run, node: Node, low: float = -np.inf, high: float = np.inf) -> list[NodeGpu]:
    """Return the GPUs of a machine with what was counted of them between two times, ns of its clock."""
    columns: dict[int, dict[str, Column]] = {}
    for one in run.series:
        if one.node == node.name and one.device is not None:
            inside = (one.time >= low) & (one.time <= high)
            if inside.any():
                columns.setdefault(one.device, {})[one.name] = one.value[inside]
    return [NodeGpu(columns[device], _facts(node, device), node, device) for device in sorted(columns)]


def _facts(node: Node, device: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for fact in node.facts:
        if fact.subject == f"gpu {device}":
            found.setdefault(fact.name, fact.value)
    return found


def _means(gpus: Sequence[Gpu]) -> Iterator[Measurement]:
    used = [
        float(np.nanmean(column))
        for gpu in gpus
        if len(column := gpu.column("utilization_percent")) and not np.isnan(column).all()
    ]
    if used:
        yield Measurement("utilization_mean_share", min(sum(used) / len(used) / 100, 1.0))
    for name, bits in (("throttle_thermal_share", THERMAL), ("throttle_power_share", POWER_CAP)):
        reasons = [column.astype(np.int64) for gpu in gpus if len(column := gpu.while_busy("throttle_reasons"))]
        if reasons:
            yield Measurement(name, max(float(np.mean((one & bits) != 0)) for one in reasons))
    hottest = [float(np.median(column)) for gpu in gpus if len(column := gpu.while_busy("temperature_c"))]
    if hottest:
        yield Measurement("temperature_c", max(hottest))


def _limits(gpus: Sequence[Gpu]) -> Iterator[Measurement]:
    clocks = [
        float(np.median(column)) / limit
        for gpu in gpus
        if len(column := gpu.while_busy("sm_clock_mhz")) and (limit := gpu.fact("sm_clock_max_mhz"))
    ]
    if clocks:
        yield Measurement("clock_share", min(*clocks, 1.0))
    for name, now, whole in (
        ("power_limit_share", "power_limit_w", "power_limit_default_w"),
        ("pcie_width_share", "pcie_width", "pcie_width_max"),
    ):
        parts = [part / most for gpu in gpus if (part := gpu.fact(now)) and (most := gpu.fact(whole))]
        if parts:
            yield Measurement(name, min(parts))


def _foreign(gpus: Sequence[Gpu]) -> Iterator[Measurement]:
    others = [
        column[~np.isnan(column)]
        for gpu in gpus
        if len(column := gpu.column("processes_foreign")) and not np.isnan(column).all()
    ]
    if others:
        yield Measurement("foreign_share", max(float(np.mean(one > 0)) for one in others))
    held = [
        float(np.nanmax(column))
        for gpu in gpus
        if len(column := gpu.column("memory_foreign_bytes")) and not np.isnan(column).all()
    ]
    if held:
        yield Measurement("foreign_memory_bytes", max(held))
