"""Counters of the machine."""

from __future__ import annotations

import sys

import psutil
import pytest

from tests.collect.conftest import Tree
from whyidle.collect.host import COLUMNS, TICKS_PER_S, Host

STAT = """cpu  100 20 30 4000 50 6 7 8 9 1
cpu0 50 10 15 2000 25 3 3 4 4 0
cpu1 50 10 15 2000 25 3 4 4 5 1
procs_running 3
"""
DISKS = """ 259 0 nvme0n1 10 0 100 1 20 0 200 2 0 3 4
 259 1 nvme0n1p1 10 0 100 1 20 0 200 2 0 3 4
   8 0 sda 1 0 11 1 2 0 22 2 0 3 4
 253 0 dm-0 9 0 900 1 9 0 900 2 0 3 4
   7 0 loop0 9 0 900 1 9 0 900 2 0 3 4
"""
NET = """Inter-|   Receive                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets
    lo: 9000 1 0 0 0 0 0 0 9000 1 0 0 0 0 0 0
  eth0: 1000 1 0 0 0 0 0 0 300 1 0 0 0 0 0 0
veth12: 500 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0
"""
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"


def row(host: Host) -> dict[str, float | None]:
    return dict(zip(COLUMNS, host.sample(), strict=True))


def test_a_row(tree: Tree) -> None:
    root = tree(
        {
            "proc/stat": STAT,
            "proc/loadavg": "1.25 0.50 0.10 2/300 4711\n",
            "proc/meminfo": "MemTotal: 99 kB\nMemAvailable: 40 kB\nCached: 7 kB\n",
            "proc/diskstats": DISKS,
            "proc/net/dev": NET,
            "proc/pressure/cpu": PRESSURE.format(11),
            "proc/pressure/io": PRESSURE.format(22),
            "proc/self/cgroup": "0::/job\n",
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/cpu.max": "100000 100000\n",
            "sys/fs/cgroup/job/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
            "sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_periods 40\nnr_throttled 3\nthrottled_usec 7000\n",
            "sys/fs/cgroup/job/memory.pressure": PRESSURE.format(5),
            "sys/block/nvme0n1/size": "1",
            "sys/block/sda/size": "1",
            "sys/block/dm-0/size": "1",
            "sys/block/loop0/size": "1",
            "sys/class/net/eth0/device/vendor": "0x1",
        }
    )
    assert row(Host(root)) == {
        "cpu_busy_s": 171 / TICKS_PER_S,
        "cpu_iowait_s": 50 / TICKS_PER_S,
        "cpus_online": 2,
        "load_1m": 1.25,
        "runnable": 3,
        "memory_available_bytes": 40 * 1024,
        "page_cache_bytes": 7 * 1024,
        "cpu_pressure_us": 11,
        "io_pressure_us": 22,
        "memory_pressure_us": None,
        "throttled_periods": 3,
        "periods": 40,
        "throttled_us": 7000,
        "disk_read_bytes": 111 * 512,
        "disk_write_bytes": 222 * 512,
        "net_rx_bytes": 1000,
        "net_tx_bytes": 300,
        "cgroup_cpu_pressure_us": None,
        "cgroup_io_pressure_us": None,
        "cgroup_memory_pressure_us": 5,
    }


def test_throttling_in_version_1_is_in_ns(tree: Tree) -> None:
    root = tree(
        {
            "proc/self/cgroup": "1:cpu,cpuacct:/\n",
            "proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
            "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 5000000\n",
        }
    )
    found = row(Host(root))
    assert (found["throttled_periods"], found["periods"], found["throttled_us"]) == (2, 9, 5000)


def test_in_a_container_its_own_interfaces_count(tree: Tree) -> None:
    found = row(Host(tree({"proc/net/dev": NET})))
    assert (found["net_rx_bytes"], found["net_tx_bytes"]) == (1500, 350)


def test_a_machine_that_shows_nothing(tree: Tree) -> None:
    assert set(row(Host(tree({}))).values()) == {None}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_this_machine() -> None:
    host = Host()
    before, between, after = row(host), psutil.cpu_times(), row(host)
    busy = between.user + between.nice + between.system + between.irq + between.softirq + between.steal
    assert before["cpu_busy_s"] is not None
    assert after["cpu_busy_s"] is not None
    assert before["cpu_busy_s"] - 0.05 <= busy <= after["cpu_busy_s"] + 0.05  # psutil rounds each part
    assert after["cpus_online"] == psutil.cpu_count()
    memory = after["memory_available_bytes"]
    assert memory is not None
    assert 0 < memory < psutil.virtual_memory().total
