"""Which processes are the job that somebody means by one process id, and what each of them is in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from whyidle.collect import procfs
from whyidle.collect.processes import Process, Processes, parse_stat
from whyidle.errors import WhyIdleError

WORKER = "pt_data_worker"  # as PyTorch names its DataLoader's workers, since 2.6
SPAWNED = ("--multiprocessing-fork", "multiprocessing.spawn", "multiprocessing.forkserver")
RANKS = ("RANK", "LOCAL_RANK")
FIND = "ps -eo pid,user,etime,args --sort=-pcpu | head   # or nvidia-smi: the process ids on the GPUs"


def root_of(pid: int, root: Path = Path("/")) -> tuple[int, str]:
    """Return the process to begin with, and what to say where it is another than was asked for.

    Raises:
        WhyIdleError: there is no such process, or it is none that can be a job.
    """
    status = procfs.text(root / f"proc/{pid}/status")
    data = procfs.read(root / f"proc/{pid}/stat")
    stat = parse_stat(data, delays=False) if data else None
    if pid <= 0 or status is None or stat is None:
        raise WhyIdleError(f"no process has the id {pid}", FIND)
    if stat.state in "ZX":
        raise WhyIdleError(f"process {pid} ({stat.name}) has ended already and waits for its parent (a zombie)", FIND)
    group = procfs.fields(root / f"proc/{pid}/status").get("Tgid", pid)
    if group != pid:
        return root_of(group, root)[0], f"{pid} is a thread of process {group}, which is looked at"
    if pid == 2 or (stat.parent == 2 and not procfs.command(root, pid)):  # kthreadd and its children
        raise WhyIdleError(f"process {pid} ({stat.name}) is a thread of the kernel", FIND)
    if pid == os.getpid() and root == Path("/"):
        raise WhyIdleError(f"process {pid} is whyidle itself", FIND)
    if stat.name.startswith(WORKER) and stat.parent > 1:
        above = root_of(stat.parent, root)[0]
        return above, f"{pid} is a worker of a DataLoader: the process that trains, {above}, is looked at"
    return pid, ""


def processes(pid: int, warn: Callable[[str], None], root: Path = Path("/")) -> Processes:
    """Return the job's processes, which are looked at now."""
    found = Processes(pid, "", warn, root)
    found.look(0)
    return found


def runs_python(alive: Mapping[int, Process], root: Path) -> bool | None:
    """Say whether some process of the job is Python, by its program or the libraries that it has loaded."""
    hidden = False
    for pid, process in alive.items():
        words = (process.stat.name, *process.command[:1])
        if any("python" in word.rpartition("/")[2] for word in words) or process.stat.name.startswith("pt_"):
            return True
        maps = procfs.read(root / f"proc/{pid}/maps")
        hidden |= maps is None
        if maps and (b"libpython" in maps or b"libtorch" in maps or b"/bin/python" in maps):
            return True
    return None if hidden else False


def roles(alive: Mapping[int, Process], on_gpu: Collection[int], root: Path) -> dict[int, str]:
    """Return what each process is: rank, worker or other.

    A worker of a DataLoader is a child that runs the same command, or was spawned by multiprocessing, or is named as
    PyTorch does. Its parent trains; so does who was given a rank by a launcher. Where none is known to train, it is
    the process that used most CPU time.

    Args:
        alive: the job's processes.
        on_gpu: those that have a GPU's device open.
        root: where the machine's files lie.
    """
    parents = {process.stat.parent for process in alive.values()}
    parents -= {pid for pid in alive if _serves_forks(pid, alive)}
    workers = {pid for pid, process in alive.items() if _is_worker(process, alive, parents, on_gpu)}
    workers -= {pid for pid in workers if alive[pid].stat.parent in workers}
    ranks = {above(pid, alive) for pid in workers}
    ranks |= {pid for pid in alive.keys() - workers if _given_rank(alive[pid], root)}
    ranks -= workers
    if not ranks:
        python = [pid for pid in alive.keys() - workers if _is_python(alive[pid])] or list(alive.keys() - workers)
        ranks = {max(python, key=lambda pid: alive[pid].stat.cpu_s)} if python else set()
    return {pid: "rank" if pid in ranks else "worker" if pid in workers else "other" for pid in alive}


def above(pid: int, alive: Mapping[int, Process]) -> int:
    """Return the process that a process works for: its parent, or whose fork server that is."""
    parent = alive.get(alive[pid].stat.parent)
    return parent.stat.parent if parent is not None and _serves_forks(parent.pid, alive) else alive[pid].stat.parent


def _serves_forks(pid: int, alive: Mapping[int, Process]) -> bool:
    """Say whether a process is multiprocessing's fork server; what it forks has the same command line."""
    parent = alive.get(alive[pid].stat.parent)
    return _of_server(alive[pid]) and not (parent is not None and _of_server(parent))


def _of_server(process: Process) -> bool:
    return any("forkserver import main" in word for word in process.command)


def _is_python(process: Process) -> bool:
    return any("python" in word.rpartition("/")[2] for word in (process.stat.name, *process.command[:1]))


def _is_worker(
    process: Process, alive: Mapping[int, Process], parents: Collection[int], on_gpu: Collection[int]
) -> bool:
    parent = alive.get(process.stat.parent)
    if parent is None or _serves_forks(process.pid, alive):
        return False
    if process.stat.name.startswith(WORKER):
        return True
    if process.pid in parents or any("resource_tracker" in word for word in process.command):
        return False
    forked = bool(process.command) and process.command == parent.command and _is_python(process)
    spawned = process.pid not in on_gpu  # what is forked has its parent's GPU open, too
    return forked or (spawned and any(name in word for word in process.command for name in SPAWNED))


def _given_rank(process: Process, root: Path) -> bool:
    """Say whether a launcher gave a process its rank: it has one, and its parent has another or none."""
    own = procfs.environment(root, process.pid) or {}
    above = procfs.environment(root, process.stat.parent) or {}
    return _is_python(process) and any(name in own and own[name] != above.get(name) for name in RANKS)
