"""Control groups: where a process stands in them, and how many CPUs they let it use.

Version 1, version 2 and both at once ("hybrid") are in use. The quota that binds is the tightest from the process's own
group up to the topmost that can be seen; the groups above a container's own are hidden from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whyidle.collect import procfs


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where a process stands in one hierarchy: the folder of its own group first, then those above."""

    version: int
    folders: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Quota:
    """CPU time that a group may use per time, in CPUs, and which file says so."""

    cpus: float
    source: str
    hierarchy: Hierarchy
    folder: Path


def hierarchies(root: Path, pid: int | str, controller: str) -> list[Hierarchy]:
    """Return the hierarchies that may limit a process: version 1's for the controller, and version 2's."""
    paths = _paths(root, pid, controller)
    found: list[Hierarchy] = []
    for mount in procfs.mounts(root, pid):
        version = 2 if mount.kind == "cgroup2" else 1 if mount.kind == "cgroup" and controller in mount.options else 0
        if version in paths and all(known.version != version for known in found):
            folder = root / mount.point.lstrip("/")
            found.append(Hierarchy(version, _upward(folder, paths[version], mount.shown)))
    return found


def _paths(root: Path, pid: int | str, controller: str) -> dict[int, str]:
    """Return the path of a process's group by version, as /proc/PID/cgroup has it."""
    paths = {}
    for line in (procfs.text(f"{root}/proc/{pid}/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            paths[2] = path
        elif controller in controllers.split(","):
            paths[1] = path
    return paths


def _upward(mounted: Path, path: str, shown: str) -> tuple[Path, ...]:
    """Return a group's folder and those above, as far as they are mounted.

    Args:
        mounted: where the hierarchy is mounted.
        path: of the process's group in the hierarchy.
        shown: the group that is mounted there; in a container without a namespace of its own that is not the topmost.
    """
    inside = path.removeprefix(shown) if shown != "/" else path
    if shown != "/" and not path.startswith(shown):  # seen from another namespace: nothing below is ours for certain
        inside = ""
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:
        parts = []
    chain = [mounted.joinpath(*parts[:length]) for length in range(len(parts), -1, -1)]
    return tuple(folder for folder in chain if folder.is_dir())


def quota(root: Path, pid: int | str = "self") -> Quota | None:
    """Return the tightest CPU quota that holds for a process; None if there is none."""
    found = [
        Quota(cpus, source, hierarchy, folder)
        for hierarchy in hierarchies(root, pid, "cpu")
        for folder in hierarchy.folders
        for cpus, source in _limits(folder, hierarchy.version)
    ]
    return min(found, key=lambda limit: limit.cpus, default=None)


def _limits(folder: Path, version: int) -> list[tuple[float, str]]:
    if version == 1:
        most = procfs.number(folder / "cpu.cfs_quota_us")  # -1: no limit
        period = procfs.number(folder / "cpu.cfs_period_us")
        source = "cgroup v1 cpu.cfs_quota_us"
    else:
        words = (procfs.text(folder / "cpu.max") or "").split()  # "max 100000" or "50000 100000"
        most, period = (int(word) if word.isdecimal() else None for word in [*words, "", ""][:2])
        source = "cgroup v2 cpu.max"
    return [(most / period, source)] if most and period and most > 0 and period > 0 else []
