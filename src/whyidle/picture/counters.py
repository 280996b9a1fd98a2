"""Charts of counters: what `whyidle run` sampled beside the job, and curves that others recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whyidle.measure.step_log.gpus import of_job, on_node
from whyidle.model.evidence import Curve, Fact, Floats64, Ints, Node, Run, Series
from whyidle.model.picture import Chart, Mark
from whyidle.picture import clock
from whyidle.picture.clock import Zero
from whyidle.picture.plot import LINES, Counter, Quantity, chart, points_for

GIB: Final = 2.0**-30
MB: Final = 1e-6

# What is drawn, in this order, by the name of its series (docs/curves.md, docs/run-directory.md). What is least is a
# judgement.
QUANTITIES: Final[dict[str, Quantity]] = {
    "utilization_percent": Quantity("GPU utilization", "%", upper=100.0),
    "graphics_active_share": Quantity("GPU engine active", "%", 100.0, 100.0),
    "sm_active_share": Quantity("Multiprocessors active", "%", 100.0, 100.0),
    "tensor_active_share": Quantity("Tensor cores active", "%", 100.0, 100.0),
    "dram_active_share": Quantity("GPU memory interface active", "%", 100.0, 100.0),
    "memory_utilization_percent": Quantity("GPU memory reads and writes", "%", upper=100.0),
    "sm_clock_mhz": Quantity("SM clock", "MHz"),
    "power_w": Quantity("Power", "W"),
    "temperature_c": Quantity("Temperature", "°C"),
    "memory_used_bytes": Quantity("GPU memory in use", "GiB", GIB),
    "memory_used_percent": Quantity("GPU memory in use", "%", upper=100.0),
    "pcie_rx_bytes_per_s": Quantity("PCIe to the GPU", "MB/s", MB, least=1e6),
    "pcie_tx_bytes_per_s": Quantity("PCIe from the GPU", "MB/s", MB, least=1e6),
    "nvlink_rx_bytes_per_s": Quantity("NVLink to the GPU", "MB/s", MB, least=1e6),
    "nvlink_tx_bytes_per_s": Quantity("NVLink from the GPU", "MB/s", MB, least=1e6),
    "cpu_busy_percent": Quantity("Host CPU busy", "%", upper=100.0),
    "workers_cpus": Quantity("CPUs that loader workers use", "CPUs", least=0.02),
    "cpu_pressure_percent": Quantity("Some task waits for a CPU", "%", upper=100.0, least=2.0),
    "io_wait_percent": Quantity("Host CPU waiting for I/O", "%", upper=100.0, least=2.0),
    "io_pressure_percent": Quantity("Some task waits for I/O", "%", upper=100.0, least=2.0),
    "disk_read_bytes_per_s": Quantity("Disk reads", "MB/s", MB, least=1e6),
    "disk_write_bytes_per_s": Quantity("Disk writes", "MB/s", MB, least=1e6),
    "network_rx_bytes_per_s": Quantity("Network in", "MB/s", MB, least=1e6),
    "network_tx_bytes_per_s": Quantity("Network out", "MB/s", MB, least=1e6),
    "memory_available_bytes": Quantity("Host memory available", "GiB", GIB),
    "samples_per_s": Quantity("Samples per second", "1/s"),
    "tokens_per_s": Quantity("Tokens per second", "1/s"),
}
ALWAYS: Final = {"utilization_percent", "graphics_active_share"}  # are drawn also where they are 0 throughout
HOST_AND_LINKS: Final = ("network", "disk", "pcie", "nvlink", "io_", "cpu_pressure")  # are named where they are near 0
LIMITS: Final = {"memory_used_bytes": "memory_bytes", "power_w": "power_limit_w", "sm_clock_mhz": "sm_clock_max_mhz"}
AS_IS: Final = {"pcie_rx_kb_s": ("pcie_rx_bytes_per_s", 1e3), "pcie_tx_kb_s": ("pcie_tx_bytes_per_s", 1e3)}
# Counts of a machine that only grow, as what they grow by per second.
RATES: Final = {
    "disk_read_bytes": ("disk_read_bytes_per_s", 1.0),
    "disk_write_bytes": ("disk_write_bytes_per_s", 1.0),
    "net_rx_bytes": ("network_rx_bytes_per_s", 1.0),
    "net_tx_bytes": ("network_tx_bytes_per_s", 1.0),
    "cgroup_cpu_pressure_us": ("cpu_pressure_percent", 1e-4),
    "cgroup_io_pressure_us": ("io_pressure_percent", 1e-4),
}
OF_CPUS: Final = {"cpu_busy_s": "cpu_busy_percent", "cpu_iowait_s": "io_wait_percent"}


def charts(run: Run, curves: Sequence[Curve], marks: Callable[[Zero], Sequence[Mark]]) -> tuple[Chart, ...]:
    """Return the counters of a run, one chart for each quantity and clock.

    Args:
        run: its nodes and their counters.
        curves: that were measured.
        marks: what is marked on a clock.
    """
    zero = clock.of_run(run.nodes, curves)
    counters = [one for node in run.nodes for one in _of_node(run, node, clock.of_node(node, zero))]
    told = {(one.zero.group, one.name) for one in counters}
    for curve in curves:
        found = _of_curve(curve, clock.of_curve(curve, zero))
        counters += (one for one in found if (one.zero.group, one.name) not in told)
    places: dict[tuple[str, str], list[Counter]] = {}
    for name in QUANTITIES:
        for one in (one for one in counters if one.name == name):
            places.setdefault((one.zero.group, name), []).append(one)
    still = [place for place, here in places.items() if not _moves(place[1], here)]
    shown = {place: here for place, here in places.items() if place not in still}
    points = points_for(sum(min(len(here), LINES) for here in shown.values()))
    drawn = [(place, chart(QUANTITIES[place[1]], here, points, marks(here[0].zero))) for place, here in shown.items()]
    return tuple(_near_zero([(group, one) for (group, _), one in drawn if one is not None], still))


def _moves(name: str, counters: Sequence[Counter]) -> bool:
    """Say whether a quantity is worth a chart."""
    return name in ALWAYS or any(bool((one.value > QUANTITIES[name].least).any()) for one in counters)


def _near_zero(drawn: Sequence[tuple[str, Chart]], still: Sequence[tuple[str, str]]) -> Iterator[Chart]:
    """Yield the charts, the last of each group with what else was measured and is too little for one."""
    last = {group: index for index, (group, _) in enumerate(drawn)}
    for index, (group, one) in enumerate(drawn):
        small = [QUANTITIES[name].title for of, name in still if of == group and name.startswith(HOST_AND_LINKS)]
        if small and last[group] == index:
            said = f"Measured as well, and near zero throughout: {', '.join(small)}."
            yield replace(one, note=" ".join(filter(None, (one.note, said))))
        else:
            yield one


def _of_curve(curve: Curve, zero: Zero) -> Iterator[Counter]:
    for one in curve.series:
        if one.pid is None and one.name in QUANTITIES and len(one.time):
            yield Counter(
                one.name, label_of(one), one.time - zero.at, one.value, zero, _limit(curve.facts, one.subject, one.name)
            )


def label_of(one: Series) -> str:
    """Return what a line is called."""
    return (one.subject or ("job" if one.name.endswith("s_per_s") else "all")).replace("gpu ", "GPU ")


def _limit(facts: Sequence[Fact], subject: str, name: str) -> float | None:
    wanted = LIMITS.get(name)
    told = (fact.value for fact in facts if fact.name == wanted and fact.subject == subject)
    return next((float(value) for value in told if isinstance(value, int | float)), None)


def _of_node(run: Run, node: Node, zero: Zero) -> Iterator[Counter]:
    """Yield what was sampled on a machine: of GPUs those that the job works on."""
    several = f"{node.host or node.name} " if len(run.nodes) > 1 else ""
    devices = {gpu.device for gpu in of_job(on_node(run, node))}
    here = [one for one in run.series if one.node == node.name and len(one.time)]
    for one in here:
        if one.device in devices and one.pid is None:
            name, scale = AS_IS.get(one.name, (one.name, 1.0))
            limit = _limit(node.facts, f"gpu {one.device}", name)
            if name in QUANTITIES:
                label = f"{several}GPU {one.device}"
                yield Counter(name, label, one.time - zero.at, one.value * scale, zero, limit)
    label = several.strip() or node.host or "host"
    yield from _of_machine([one for one in here if one.device is None and one.pid is None], node, label, zero)
    workers = _workers([one for one in here if one.name == "cpu_s" and one.role == "worker"])
    if workers is not None:
        yield Counter("workers_cpus", label, workers[0] - zero.at, workers[1], zero)


def _of_machine(series: Sequence[Series], node: Node, label: str, zero: Zero) -> Iterator[Counter]:
    cpus = next((float(f.value) for f in node.facts if f.name == "cpus" and isinstance(f.value, int | float)), 0.0)
    for one in series:
        if one.name == "memory_available_bytes":
            yield Counter(one.name, label, one.time - zero.at, one.value, zero)
        elif one.name in RATES:
            name, scale = RATES[one.name]
            yield Counter(name, label, one.time - zero.at, rate(one) * scale, zero)
        elif one.name in OF_CPUS and cpus > 0:
            yield Counter(OF_CPUS[one.name], label, one.time - zero.at, rate(one) * 100 / cpus, zero)


def rate(one: Series) -> Floats64:
    """Return by how much a count grows per second, from the sample before to each; NaN of a fall, or not known."""
    grown = np.full(len(one.time), np.nan)
    if len(one.time) > 1:
        seconds = np.diff(one.time) / 1e9
        np.divide(np.diff(one.value), seconds, out=grown[1:], where=seconds > 0)
    grown[grown < 0] = np.nan
    return grown


def _workers(series: Sequence[Series]) -> tuple[Ints, Floats64] | None:
    """Return the CPUs that all workers use together, at the times at which any was sampled; None without workers."""
    sampled = [(one.time, rate(one)) for one in series]
    if not sampled:
        return None
    times = np.unique(np.concatenate([time[1:] for time, _ in sampled]))
    total = np.zeros(len(times))
    for time, used in sampled:
        total[np.searchsorted(times, time[1:])] += np.nan_to_num(used[1:])
    return times, total
