"""Quotas in all the ways in which control groups are mounted."""

from __future__ import annotations

import pytest

from tests.collect.conftest import Tree
from whyidle.collect.cgroup import hierarchies, quota

V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
V1_CPU = "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def test_the_tightest_of_a_chain_binds(tree: Tree) -> None:
    root = tree(
        {
            "proc/self/cgroup": "0::/slice/job/step\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/slice/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/slice/job/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/slice/job/step/cpu.max": "max 100000\n",
        }
    )
    found = quota(root)
    assert found is not None
    assert (found.cpus, found.source, found.folder.name) == (1.5, "cgroup v2 cpu.max", "job")


def test_version_1(tree: Tree) -> None:
    root = tree(
        {
            "proc/self/cgroup": "4:memory:/elsewhere\n1:cpu,cpuacct:/docker/abc\n",
            "proc/self/mountinfo": V1_MEMORY + V1_CPU.format(root="/docker/abc"),
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        }
    )
    found = quota(root)
    assert found is not None
    assert (found.cpus, found.source) == (2.5, "cgroup v1 cpu.cfs_quota_us")


def test_both_at_once(tree: Tree) -> None:
    """A hybrid machine may have its quota in either."""
    root = tree(
        {
            "proc/self/cgroup": "1:cpu,cpuacct:/a\n0::/b\n",
            "proc/self/mountinfo": V1_CPU.format(root="/") + UNIFIED,
            "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "400000\n",
            "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/unified/b/cpu.max": "300000 100000\n",
        }
    )
    assert [hierarchy.version for hierarchy in hierarchies(root, "self", "cpu")] == [1, 2]
    found = quota(root)
    assert found is not None
    assert found.cpus == 3.0


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": V2, "sys/fs/cgroup/cpu.max": "max 100000\n"},
        {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": V2, "sys/fs/cgroup/cpu.max": "garbage\n"},
        {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "garbage\n\n - \n"},
        {"proc/self/cgroup": "garbage", "proc/self/mountinfo": V2, "sys/fs/cgroup/cpu.max": "100 100\n"},
        {
            "proc/self/cgroup": "1:cpu,cpuacct:/\n",
            "proc/self/mountinfo": V1_CPU.format(root="/"),
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
    ],
)
def test_no_quota(tree: Tree, files: dict[str, str | bytes]) -> None:
    assert quota(tree(files)) is None


def test_a_group_outside_of_what_is_mounted(tree: Tree) -> None:
    """From inside a container: the topmost group that shows is taken."""
    root = tree(
        {
            "proc/self/cgroup": "0::/../../elsewhere\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cpu.max": "50000 100000\n",
        }
    )
    found = quota(root)
    assert found is not None
    assert found.cpus == 0.5
