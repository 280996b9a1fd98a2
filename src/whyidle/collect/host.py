"""A row of host.csv: how busy the machine is, who waits for what (PSI), and what its disks and network carry.

Counts grow from boot on; who reads them takes differences.
"""

from __future__ import annotations

import os
from pathlib import Path

from whyidle.collect import cgroup, procfs

COLUMNS = (
    *("cpu_busy_s", "cpu_iowait_s", "cpus_online", "load_1m", "runnable", "memory_available_bytes", "page_cache_bytes"),
    *("cpu_pressure_us", "io_pressure_us", "memory_pressure_us", "throttled_periods", "periods", "throttled_us"),
    *("disk_read_bytes", "disk_write_bytes", "net_rx_bytes", "net_tx_bytes"),
    *("cgroup_cpu_pressure_us", "cgroup_io_pressure_us", "cgroup_memory_pressure_us"),
)
RESOURCES = ("cpu", "io", "memory")
SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own (Documentation/admin-guide/iostats.rst)
STACKED = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")  # these rest on other disks, which count already
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Number = int | float | None


class Host:
    """The counters of a machine.

    Args:
        root: where the machine's files lie.
        pid: the process in whose control group the job is.
    """

    def __init__(self, root: Path = Path("/"), pid: int | str = "self") -> None:
        self._root = root
        limit = cgroup.quota(root, pid)
        groups = cgroup.hierarchies(root, pid, "cpu")
        # A group's statistics are about its own quota, not about those above it.
        self._throttling = [(limit.hierarchy.version, limit.folder)] if limit else []
        self._throttling += [(group.version, folder) for group in groups for folder in group.folders[:1]]
        self._group = next((group.folders[0] for group in groups if group.version == 2 and group.folders), None)

    def sample(self) -> tuple[Number, ...]:
        """Return a value per name in COLUMNS; None where it cannot be measured here."""
        root = self._root
        memory = procfs.fields(root / "proc/meminfo")
        pressure = [_stalled(procfs.text(root / f"proc/pressure/{name}")) for name in RESOURCES]
        group = [_stalled(procfs.text(self._group / f"{name}.pressure")) if self._group else None for name in RESOURCES]
        return (
            *_cpu(procfs.text(root / "proc/stat") or "", procfs.text(root / "proc/loadavg") or ""),
            *(memory[name] * 1024 if name in memory else None for name in ("MemAvailable", "Cached")),
            *pressure,
            *self._throttled(),
            *_disks(root),
            *_network(root),
            *group,
        )

    def _throttled(self) -> tuple[Number, Number, Number]:
        for version, folder in self._throttling:
            stat = procfs.fields(folder / "cpu.stat")
            if "nr_periods" in stat:
                held = stat.get("throttled_usec") if version == 2 else stat.get("throttled_time", 0) // 1000
                return stat.get("nr_throttled"), stat["nr_periods"], held
        return None, None, None


def _cpu(stat: str, load: str) -> tuple[Number, ...]:
    """Return seconds busy and waiting for storage (sums of all CPUs), CPUs, the load, and tasks that run or could."""
    busy: Number = None
    waiting: Number = None
    runnable: Number = None
    cpus = 0
    for line in stat.splitlines():
        name, *words = line.split() or [""]
        if name == "cpu" and len(words) >= 8:
            user, nice, system, _, iowait, irq, softirq, steal = map(int, words[:8])
            busy = (user + nice + system + irq + softirq + steal) / TICKS_PER_S
            waiting = iowait / TICKS_PER_S
        elif name.startswith("cpu"):
            cpus += 1
        elif name == "procs_running":
            runnable = int(words[0])
    first = load.split(" ", 1)[0]
    return busy, waiting, cpus or None, float(first) if first else None, runnable


def _stalled(pressure: str | None) -> int | None:
    """Return for how long some task waited, in us, from a file of PSI."""
    for line in (pressure or "").splitlines():
        kind, _, rest = line.partition(" ")
        total = rest.rpartition("total=")[2]
        if kind == "some" and total.isdecimal():
            return int(total)
    return None


def _disks(root: Path) -> tuple[Number, Number]:
    """Return bytes read and written by the machine's disks; partitions and stacked devices count once."""
    whole = {path.name for path in (root / "sys/block").glob("*")}
    read: Number = None
    written: Number = None
    for line in (procfs.text(root / "proc/diskstats") or "").splitlines():
        words = line.split()
        if len(words) < 10 or words[2] not in whole or words[2].startswith(STACKED):
            continue
        read = (read or 0) + int(words[5]) * SECTOR_BYTES
        written = (written or 0) + int(words[9]) * SECTOR_BYTES
    return read, written


def _network(root: Path) -> tuple[Number, Number]:
    """Return bytes received and sent by network cards; in a container, which has none, by its own interfaces."""
    carried = {}
    for line in (procfs.text(root / "proc/net/dev") or "").splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        if colon and len(words) >= 9 and name.strip() != "lo":
            carried[name.strip()] = (int(words[0]), int(words[8]))
    cards = {name: value for name, value in carried.items() if (root / "sys/class/net" / name / "device").exists()}
    values = (cards or carried).values()
    return (sum(value[0] for value in values), sum(value[1] for value in values)) if values else (None, None)
