"""A DataLoader alone: a new one like the user's, with other workers, as fast as it gives batches. For `whyidle loader`.

Runs in a forked child of the training process, so that data set, sampler, generator and random state are copies of the
training's as they are when it begins, and the training's stay as they were. Nothing here touches a GPU.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from statistics import fmean, median
from time import perf_counter, process_time, sleep
from typing import Any

from _whyidle import settings

SAMPLES = 200  # times of single batches that are kept
LEAST = 3  # batches, however long they take
RECEIVED = 8  # batches that are there already, from which is told what it takes to receive one
PATIENCE = 4.0  # times the seconds that were asked for: then fewer than LEAST have to do
# Where workers leave batches: torch's sharing strategy file_descriptor, the default on Linux.
SHARED = "/dev/shm"  # noqa: S108 - only its size is asked for


def like(loader: Any, workers: int, prefetch: int) -> Any:
    """Return a new DataLoader with the data set, order and functions of another.

    A plain one, whatever the class of the other is: such classes move batches to a GPU, which a forked child must not.
    """
    arguments: dict[str, Any] = {
        "num_workers": workers,
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
        "generator": loader.generator,
    }
    if workers:
        arguments["prefetch_factor"] = prefetch
        arguments["timeout"] = loader.timeout
        arguments["multiprocessing_context"] = loader.multiprocessing_context
        arguments["persistent_workers"] = True  # an epoch that is shorter than the measurement is iterated again
    if settings.is_iterable(loader):
        arguments["batch_size"] = loader.batch_size
        arguments["drop_last"] = loader.drop_last
    elif loader.batch_sampler is not None:
        arguments["batch_sampler"] = loader.batch_sampler
    else:
        arguments["batch_size"] = None
        arguments["sampler"] = loader.sampler
    return sys.modules["torch.utils.data"].DataLoader(loader.dataset, **arguments)


class Endless:
    """The batches of a loader, epoch after epoch."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._iterator = iter(loader)
        self._given = 0

    def __next__(self) -> Any:
        try:
            batch = next(self._iterator)
        except StopIteration:
            if not self._given:
                raise ValueError("it gives no batch") from None
            self._given = 0
            self._iterator = iter(self._loader)
            return self.__next__()
        self._given += 1
        return batch

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        return [worker.pid for worker in getattr(self._iterator, "_workers", ())]


class Fetches:
    """How long each batch takes whoever makes it: workers that are forked inherit where to write that."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as the process
        fetchers = sys.modules["torch.utils.data._utils.fetch"]
        for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
            self._time(getattr(fetchers, name))

    def _time(self, fetcher: Any) -> None:
        original, descriptor = fetcher.fetch, self._file.fileno()

        def fetch(fetcher: Any, indices: Any) -> Any:
            start = perf_counter()
            batch = original(fetcher, indices)
            os.write(descriptor, struct.pack("d", perf_counter() - start))  # one file position for all processes
            return batch

        fetcher.fetch = fetch

    def forget(self) -> None:
        """Begin anew."""
        self._file.seek(0)
        self._file.truncate()

    def seconds(self) -> list[float]:
        """Return the times, in s."""
        size = os.fstat(self._file.fileno()).st_size // 8
        return list(struct.unpack("%dd" % size, os.pread(self._file.fileno(), size * 8, 0)))


def measure(loader: Any, workers: int, prefetch: int, seconds: float) -> dict[str, Any]:
    """Return what a loader gives with so many workers; see `points` of ID.loader.json.

    Args:
        loader: the user's.
        workers: 0 makes batches in the process that asks for them.
        prefetch: batches that each worker makes ahead.
        seconds: to measure for, after the warm-up.
    """
    fetches = Fetches()
    start = perf_counter()
    batches = Endless(like(loader, workers, prefetch))
    batch = next(batches)
    first_s = perf_counter() - start
    early = [batch]
    for _ in range(workers * prefetch or 1):  # what was made ahead says nothing of the pace
        if perf_counter() - start - first_s > seconds:
            break
        early = [*early, next(batches)][: workers + 1]
    fetches.forget()
    pids = batches.workers()
    cpu, delay = _cpu_s(pids), _delay_s(pids)
    begin = end = perf_counter()
    count = 0
    while end - begin < seconds or (count < LEAST and end - begin < PATIENCE * seconds):
        next(batches)
        count += 1
        end = perf_counter()
    times = fetches.seconds()
    used, delayed = _cpu_s(pids), _delay_s(pids)
    size, samples = size_of(batch)
    made_s = fmean(times) if times else max(workers, 1) * (end - begin) / max(count, 1)
    return {
        "receive_s": _receive(batches, workers * prefetch, 1.5 * prefetch * made_s, seconds) if workers else None,
        "repeated": settings.is_iterable(loader) and _repeated(early, workers),
        "batches": count,
        "seconds": end - begin,
        "first_batch_s": first_s,
        "fetch_s": thinned(times),
        "cpu_s": None if cpu is None or used is None else used - cpu,
        "run_delay_s": None if delay is None or delayed is None else delayed - delay,
        "memory_bytes": _largest(map(_proportional, pids)),
        "peak_memory_bytes": _largest(map(_peak, pids)),
        "batch_bytes": size,
        "batch_samples": samples,
    }


def _receive(batches: Endless, ahead: int, until_made_s: float, most_s: float) -> float | None:
    """Return what it takes to receive a batch that is there already, s; None where they take too long to be made."""
    if until_made_s > most_s:
        return None
    sleep(until_made_s)
    times = []
    for _ in range(min(ahead, RECEIVED)):
        start = perf_counter()
        next(batches)
        times.append(perf_counter() - start)
    return median(times)


def _repeated(early: list[Any], workers: int) -> bool:
    """Return whether the first two workers begin with the same batch, though one worker's batches differ."""
    if workers < 2 or len(early) <= workers:
        return False
    first, of_next, later = (list(_tensors(early[number], 0)) for number in (0, 1, workers))
    return bool(first) and _are_equal(first, of_next) and not _are_equal(first, later)


def _are_equal(some: list[Any], others: list[Any]) -> bool:
    equal = sys.modules["torch"].equal
    return len(some) == len(others) and all(equal(one, other) for one, other in zip(some, others))


def thinned(times: list[float]) -> list[float]:
    """Return at most SAMPLES of the times, from all of their course."""
    return times[:: -(-len(times) // SAMPLES)] if times else []


def size_of(batch: Any) -> tuple[int, int | None]:
    """Return the bytes of a batch's tensors, and its samples if its first tensor tells."""
    total, samples = 0, None
    for tensor in _tensors(batch, 0):
        total += tensor.numel() * tensor.element_size()
        if samples is None and tensor.dim():
            samples = int(tensor.shape[0])
    return total, samples


def _tensors(thing: Any, depth: int) -> Iterator[Any]:
    if hasattr(thing, "element_size"):
        yield thing
    elif depth < 8:
        values: Any = ()
        if hasattr(thing, "values") and hasattr(thing, "keys"):
            values = thing.values()
        elif isinstance(thing, (list, tuple)):
            values = thing
        elif hasattr(thing, "__dict__"):
            values = vars(thing).values()
        for value in values:
            yield from _tensors(value, depth + 1)


def _cpu_s(pids: list[int]) -> float | None:
    """Return the CPU time that this process and these have used, in s; None where the system does not tell."""
    total = process_time()
    try:
        for pid in pids:
            with open("/proc/%d/stat" % pid, "rb") as file:
                words = file.read().rpartition(b")")[2].split()
            total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime
    except (OSError, ValueError, IndexError):
        return None
    return total


def _delay_s(pids: list[int]) -> float | None:
    """Return for how long whoever makes batches was ready to run and had no CPU, in s; None where it is not told."""
    total = 0.0
    try:
        for pid in pids or [os.getpid()]:
            with open("/proc/%d/schedstat" % pid) as file:
                total += int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
    return total


def _proportional(pid: int) -> int | None:
    """Return the memory of a process in which what it shares counts in parts (PSS), in bytes; else all of it (RSS)."""
    pss = _kilobytes("/proc/%d/smaps_rollup" % pid, b"Pss:")
    return pss if pss is not None else _kilobytes("/proc/%d/status" % pid, b"VmRSS:")


def _peak(pid: int) -> int | None:
    return _kilobytes("/proc/%d/status" % pid, b"VmHWM:")


def _kilobytes(path: str, name: bytes) -> int | None:
    """Return a line of a file of /proc, in bytes."""
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(name):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _largest(values: Any) -> int | None:
    return max((value for value in values if value is not None), default=None)


def available_memory() -> int | None:
    """Return what new processes can take without pushing others out, in bytes."""
    return _kilobytes("/proc/meminfo", b"MemAvailable:")


def free_shared_memory() -> int | None:
    """Return what is left where workers leave their batches, in bytes."""
    try:
        facts = os.statvfs(SHARED)
    except OSError:
        return None
    return facts.f_bavail * facts.f_frsize
