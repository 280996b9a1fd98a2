"""What the machine is."""

from __future__ import annotations

import os
import sys

import pytest

from tests.collect.conftest import Tree
from whyidle.collect.machine import Machine, in_container, machine

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def test_a_machine(tree: Tree) -> None:
    root = tree(
        {
            "proc/self/status": "Name:\tpython\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,8\n",
            "proc/self/cgroup": "0::/job\n",
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "proc/meminfo": "MemTotal:       1024 kB\nMemFree: 1 kB\n",
            "proc/sys/kernel/osrelease": "6.8.0\n",
            "sys/fs/cgroup/job/cpu.max": "350000 100000\n",
            "sys/devices/system/cpu/online": "0-15\n",
            "sys/devices/system/node/node0/cpulist": "0-7\n",
            "sys/devices/system/node/node1/cpulist": "8-15\n",
            "sys/devices/system/node/has_cpu": "0-1\n",
        }
    )
    assert machine(root) == Machine(16, [0, 1, 2, 8], 3.5, "cgroup v2 cpu.max", 1 << 20, 2, "6.8.0", container=False)


def test_a_machine_that_shows_nothing(tree: Tree) -> None:
    assert machine(tree({})) == Machine(None, None, None, None, None, None, None, container=False)


@pytest.mark.parametrize(
    "files",
    [
        {".dockerenv": ""},
        {"run/.containerenv": ""},
        {"proc/1/environ": b"container=lxc\0PATH=/bin\0"},
        {"proc/1/cgroup": "12:cpu:/kubepods/burstable/pod1\n"},
    ],
)
def test_containers(tree: Tree, files: dict[str, str | bytes]) -> None:
    assert in_container(tree(files))


@linux
def test_this_machine() -> None:
    here = machine()
    assert here.cpus_allowed == sorted(os.sched_getaffinity(0))
    assert here.cpus is not None
    assert here.cpus >= len(here.cpus_allowed)
    assert here.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert here.kernel == os.uname().release
