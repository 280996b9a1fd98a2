"""What a data set reads: which files, how much, and how fast with and without the page cache. For `whyidle loader`.

Runs in a forked child of the training process, without workers, so that all of it happens here: an audit hook sees the
files that Python opens, /proc/self the ones that are open or mapped already. A file that a library opens and closes by
itself is not seen.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from itertools import islice
from time import perf_counter
from typing import Any

from _whyidle import loader_alone, settings

MOST_FILES = 20_000  # that are remembered
MOST_BATCHES = 200
LEAST_BATCHES = 2
PATIENCE = 4.0  # times the seconds that were asked for, for a pass that is slower than the first
CODE = (".py", ".pyc", ".so", ".pth", ".pyi")
SYSTEM = ("/proc/", "/sys/", "/dev/")


class Files:
    """The data files that this process opens."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.opened = 0
        self._hears = False
        self._of_python = tuple({sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib")})
        sys.addaudithook(self._heard)  # for as long as this process lives

    def __enter__(self) -> Files:
        self._hears = True
        return self

    def __exit__(self, *error: Any) -> None:
        self._hears = False

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self._hears:
            return
        path, _, flags = arguments
        if isinstance(path, (str, bytes, os.PathLike)) and not (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            self._add(os.fsdecode(path))

    def _add(self, path: str) -> None:
        path = os.path.abspath(path)
        if not path.endswith(CODE) and not path.startswith((*SYSTEM, *self._of_python)):
            self.opened += 1
            if len(self.names) < MOST_FILES:
                self.names[path] = None

    def add_open(self) -> None:
        """Add what is open or mapped already, to be read only: an archive, a table in memory."""
        for number in os.listdir("/proc/self/fd"):
            try:
                path = os.readlink("/proc/self/fd/" + number)
                with open("/proc/self/fdinfo/" + number) as file:
                    flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
            except (OSError, ValueError, StopIteration):
                continue
            if flags & os.O_ACCMODE == os.O_RDONLY and int(number) > 2 and _is_file(path):
                self._add(path)
        with open("/proc/self/maps", errors="replace") as file:
            for line in file:
                words = line.rstrip("\n").split(None, 5)
                if len(words) == 6 and "x" not in words[1] and words[5] not in self.names and _is_data(words[5]):
                    self._add(words[5])

    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(os.stat(path).st_size for path in self.names if os.path.isfile(path))


def _is_file(path: str) -> bool:
    try:
        return path.startswith("/") and stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _is_data(path: str) -> bool:
    """Return whether a mapped file is data: no library, none of its parts, none of ours."""
    libraries = ("/usr/", "/lib", "/etc/", "/var/cache/", sys.base_prefix + os.sep, sys.prefix + os.sep)
    return _is_file(path) and not path.startswith(libraries) and ".so" not in path and not path.endswith(".ring")


def measure(loader: Any, seconds: float, cold: bool) -> dict[str, Any]:
    """Return what the data set reads; see `storage` of ID.loader.json.

    Args:
        loader: the user's.
        seconds: for the first pass; the others read the same.
        cold: take the files out of the page cache, and read them once more.
    """
    indices = None if settings.is_iterable(loader) else _indices(loader)
    files = Files()
    with files:
        first = _pass(_batches(loader, indices), seconds, MOST_BATCHES)
    opened = files.opened
    files.add_open()
    passes = {"first": first}
    count = first["batches"]
    if cold and files.names:
        dropped = sum(map(_drop, files.names))
        passes["cold"] = {**_pass(_batches(loader, indices), PATIENCE * seconds, count), "dropped": dropped}
    passes["warm"] = _pass(_batches(loader, indices), PATIENCE * seconds, count)
    return {
        **dict.fromkeys(("first", "cold", "warm")),
        **passes,
        "files": len(files.names),
        "opened": opened,
        "files_bytes": files.size(),
        "example": next(iter(files.names), None),
    }


def _indices(loader: Any) -> list[Any]:
    """Return what the sampler asks for, to be asked for again."""
    return list(islice(iter(loader._index_sampler), MOST_BATCHES + 1))


def _batches(loader: Any, indices: list[Any] | None) -> Any:
    if indices is None:
        return iter(loader_alone.like(loader, 0, 2))
    fetcher = sys.modules["torch.utils.data._utils.fetch"]._MapDatasetFetcher(
        loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
    )
    return map(fetcher.fetch, indices)


def _pass(batches: Any, seconds: float, most: int) -> dict[str, Any]:
    """Return how fast batches were made, and what was read for them: at least two, at most `most`."""
    before = _read()
    begin = end = perf_counter()
    count = 0
    while count < most and (count < LEAST_BATCHES or end - begin < seconds):
        try:
            next(batches)
        except StopIteration:
            break
        count += 1
        end = perf_counter()
    after = _read()
    known = before is not None and after is not None
    return {
        "batches": count,
        "seconds": end - begin,
        "read_bytes": after[0] - before[0] if known else None,  # type: ignore[index]
        "disk_bytes": after[1] - before[1] if known else None,  # type: ignore[index]
    }


def _read() -> tuple[int, int] | None:
    """Return the bytes that this process has asked for, and those that came from storage; None: it is not told."""
    try:
        with open("/proc/self/io") as file:
            told = {name: int(value) for name, _, value in (line.partition(":") for line in file)}
        return told["rchar"], told["read_bytes"]
    except (OSError, ValueError, KeyError):
        return None


def _drop(path: str) -> bool:
    """Take a file out of the page cache, which changes nothing in it; return whether that was possible."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
