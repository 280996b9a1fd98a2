"""Where a recording lies: RUNDIR, this machine's folder in it, and on a network file system a local one for the rings.

docs/run-directory.md describes what is in them. A mapped file on a network file system can stall or kill the job that
writes to it, so rings never lie there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from whyidle.collect import procfs
from whyidle.errors import WhyIdleError

HOME = "whyidle-runs"
# The launcher's own number of this machine, the most particular first.
_NODE_RANK = ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
# Which of several on this machine, where a scheduler starts us once per rank.
_LOCAL_RANK = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the last by a limit of the shell: ulimit -f
_TRIAL_BYTES = 4096
# By the names in /proc/self/mountinfo. What is not listed is taken for local, as tmpfs, overlay, ext4, xfs, zfs are.
_NETWORK = re.compile(
    r"^(nfs\d?|cifs|smb3?|smbfs|lustre|gpfs|beegfs(_nodev)?|ceph|glusterfs|afs|9p|virtiofs|orangefs|pvfs2|panfs|wekafs|"
    r"vboxsf|fuse\..+|fuse|daos|quobyte)$"
)


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders of one recording on this machine."""

    run: Path
    node: Path
    rings: Path | None = None  # a local folder instead of `node`, where that is on a network file system
    said: str = ""  # what the user should know about their place

    @property
    def capture(self) -> Path:
        """Return the folder in which the job's processes write."""
        return self.rings or self.node


def make(output: Path | None, name: str, environment: Mapping[str, str], now: datetime) -> Folders:
    """Make the folders of a recording.

    Args:
        output: what the user named; None is a new folder in `whyidle-runs`.
        name: of the job.
        environment: that of the job, for its number among several machines.
        now: local time, for the folder's name.

    Raises:
        WhyIdleError: when the folder that the user named holds a recording of this machine, or cannot be written.
        OSError: when there is no place at all.
    """
    node = _node(environment)
    if output is not None:
        try:
            return _with_rings(_made(output, node))
        except FileExistsError:
            raise _taken(output, node) from None
        except OSError as error:
            if error.errno not in _FULL:
                raise WhyIdleError(f"cannot write to {output}: {error.strerror}", "-o another folder") from None
            why = f"{output}: {error.strerror}"
        homes: Iterable[Callable[[], Path]] = (_temporary,)
    else:
        why = ""
        homes = (lambda: Path(HOME), _temporary)
    for place in homes:
        try:
            home = place()
            return replace(_with_rings(_new(home, f"{_plain(name)}-{now:%Y%m%d-%H%M%S}", node)), said=why)
        except OSError as error:
            why = why or f"{Path.cwd()}: {error.strerror}"
    raise OSError(errno.EROFS, why)


def join(run: Path, environment: Mapping[str, str]) -> Folders:
    """Return the folders that several processes of a machine share; who comes first makes them.

    Raises:
        OSError: when they cannot be made.
    """
    folders = Folders(run.absolute(), run.absolute() / _node({**environment, **dict.fromkeys(_LOCAL_RANK, "0")}))
    folders.node.mkdir(parents=True, exist_ok=True)
    return folders


def remove(folders: Folders) -> None:
    """Remove the folders of a recording that did not begin; what else lies in them stays."""
    for path in (folders.rings, folders.node):
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
    ours = (folders.run, folders.run.parent) if folders.run.parent.name.startswith(HOME) else (folders.run,)
    for path in ours:
        try:
            path.rmdir()
        except OSError:
            return


def file_system(path: Path) -> str:
    """Return the type of the file system that a path is on, as /proc/self/mountinfo calls it; empty if not known."""
    where = os.path.realpath(path)
    best, kind = "", ""
    for mount in procfs.mounts(Path("/")):
        inside = where == mount.point or where.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best):  # of several on one point the last counts
            best, kind = mount.point, mount.kind
    return kind


def on_network(path: Path) -> bool:
    """Return whether a path is on a network file system, or on one of which that cannot be ruled out."""
    return bool(_NETWORK.match(file_system(path)))


def _node(environment: Mapping[str, str]) -> str:
    """Return the name of this machine's folder."""
    parts = ["node", _plain(socket.gethostname().partition(".")[0])]
    rank = _number(environment, _NODE_RANK)
    local = _number(environment, _LOCAL_RANK)
    parts += [] if rank is None else [rank]
    parts += [] if local in (None, "0") else [f"task{local}"]
    return "-".join(parts)


def _number(environment: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((environment[name] for name in names if environment.get(name, "").isdecimal()), None)


def _made(run: Path, node: str) -> Folders:
    """Make a folder and the machine's in it, and see whether files can be written there."""
    run = run.absolute()  # the job may change its folder
    run.mkdir(parents=True, exist_ok=True)
    folder = run / node
    folder.mkdir()
    try:
        trial = folder / "trial"
        trial.write_bytes(bytes(_TRIAL_BYTES))
        trial.unlink()
    except OSError:
        remove(Folders(run, folder))
        raise
    return Folders(run, folder)


def _new(home: Path, name: str, node: str) -> Folders:
    """Make a folder that was not there: two jobs may start in the same second."""
    number = 1
    while True:
        run = home / (name if number == 1 else f"{name}-{number}")
        home.mkdir(parents=True, exist_ok=True)
        try:
            run.mkdir()
        except FileExistsError:
            number += 1
            continue
        return _made(run, node)


def _temporary() -> Path:
    """Return a folder of this user's among the temporary ones, where others might prepare a trap under its name.

    Raises:
        OSError: when there can be none.
    """
    home = Path(tempfile.gettempdir()) / f"{HOME}-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o700)
    facts = home.lstat()
    if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022:
        return home
    return Path(tempfile.mkdtemp(prefix=f"{HOME}-"))


def _with_rings(folders: Folders) -> Folders:
    """Return the folders with a local one for the rings, if they need it and there is one."""
    if not on_network(folders.node):
        return folders
    for home in (tempfile.gettempdir(), "/var/tmp", "/dev/shm"):  # noqa: S108 - mkdtemp makes a folder of our own
        try:
            if not on_network(Path(home)):
                return replace(folders, rings=Path(tempfile.mkdtemp(prefix="whyidle-", dir=home)))
        except OSError:
            continue
    return folders


def _taken(output: Path, node: str) -> WhyIdleError:
    if output.is_dir():
        return WhyIdleError(f"{output} holds a recording of this machine already ({node})", "-o another folder")
    return WhyIdleError(f"{output} is a file; a recording is a folder", "-o another folder")


def _plain(name: str) -> str:
    """Return a name that suits a file."""
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:64] or "job"
