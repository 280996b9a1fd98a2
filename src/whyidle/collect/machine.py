"""What the machine is: its CPUs and how many of them the job may use, its memory, its kernel.

These are the facts of `node.json` that do not change while a job runs. `root` is where the machine's files lie: "/", or
a tree that a test made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from whyidle.collect import cgroup, procfs

CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_GROUPS = ("/docker", "/kubepods", "/lxc", "/libpod", "containerd", "/garden/")


@dataclass(frozen=True, slots=True)
class Machine:
    """The `machine` of node.json; None is not known.

    Attributes:
        cpus: online.
        cpus_allowed: those on which the shell that started the job may run, by its affinity.
        cpu_quota: CPU time per time that the control groups allow, in CPUs.
        quota_from: which file says so.
        memory_bytes: of the machine.
        numa_nodes: of the machine.
        kernel: release.
        container: whether the job runs in one.
    """

    cpus: int | None
    cpus_allowed: list[int] | None
    cpu_quota: float | None
    quota_from: str | None
    memory_bytes: int | None
    numa_nodes: int | None
    kernel: str | None
    container: bool


def machine(root: Path = Path("/"), pid: int | str = "self") -> Machine:
    """Return the facts of a machine.

    Args:
        root: where its files lie.
        pid: the process whose affinity and control groups count.
    """
    limit = cgroup.quota(root, pid)
    memory = procfs.fields(root / "proc/meminfo").get("MemTotal")
    return Machine(
        cpus=_online(root),
        cpus_allowed=procfs.allowed_cpus(root, pid),
        cpu_quota=round(limit.cpus, 3) if limit else None,
        quota_from=limit.source if limit else None,
        memory_bytes=None if memory is None else memory * 1024,
        numa_nodes=_numa_nodes(root),
        kernel=(procfs.text(root / "proc/sys/kernel/osrelease") or "").strip() or None,
        container=in_container(root),
    )


def _online(root: Path) -> int | None:
    cpus = procfs.cpu_list(procfs.text(root / "sys/devices/system/cpu/online") or "")
    if cpus:
        return len(cpus)
    return os.cpu_count() if root == Path("/") else None


def _numa_nodes(root: Path) -> int | None:
    nodes = [path for path in (root / "sys/devices/system/node").glob("node*") if path.name[4:].isdecimal()]
    return len(nodes) or None


def in_container(root: Path = Path("/")) -> bool:
    """Return whether this is a container, by the marks that Docker, Podman, Kubernetes and LXC leave."""
    if any((root / name).exists() for name in CONTAINER_FILES):
        return True
    if "container" in (procfs.environment(root, 1) or {}):
        return True
    groups = procfs.text(root / "proc/1/cgroup") or ""
    return any(mark in groups for mark in CONTAINER_GROUPS)
