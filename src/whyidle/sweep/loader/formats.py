"""Changes that are none of the DataLoader's arguments: how data lie on storage, and what is computed for each batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from whyidle.model.loader_trial import LoaderTrial, Pass, Point, Storage

SMALL_FILE: Final = 256 << 10  # bytes; reading less than that from a disk takes as long as finding it (judgement)
MANY: Final = 0.5  # files opened for each sample
SLOWER: Final = 1.3  # a cold pass takes longer by that, or storage is no question (judgement)
FROM_DISK: Final = 0.5  # of what was read: then the first pass was a cold one


def other_changes(
    trial: LoaderTrial, points: Sequence[Point], ceiling: float | None, limit: str | None
) -> Iterable[str]:
    """Yield changes with their reasons.

    Args:
        trial: what was measured.
        points: of it, that gave batches.
        ceiling: what the training takes for a batch, s; None is not known.
        limit: what keeps the loader from being faster.
    """
    storage = trial.storage
    cold = cold_pass(storage)
    slow = cold is not None and _is_slow(storage, cold, ceiling, points)
    samples = max((point.batch_samples or 0 for point in points), default=0)
    if storage is not None and slow and _small_files(storage, samples):
        mean = (storage.files_bytes or 0) / storage.files
        yield (
            f"pack the samples into larger files (WebDataset, Parquet, LMDB): it opens about "
            f"{storage.opened / _batches(storage) / samples:.2g} a sample, of {mean / 1024:.3g} KiB in the mean"
        )
    elif slow:
        yield "put the data on a faster disk or into memory: what is not in the page cache comes too slowly"
    if any(point.repeated for point in points):
        yield (
            "divide the data set among workers (torch.utils.data.get_worker_info): each gives all of its samples, so "
            "that more than one would repeat them; then try again"
        )
    if limit == "cpu":
        cpu = min((point.cpu_s / point.batches for point in points if point.cpu_s is not None), default=None)
        took = "" if cpu is None else f": a batch takes {cpu * 1e3:.3g} ms of a CPU"
        yield f"make a sample cheaper: decode and resize beforehand, smaller images, or decode on the GPU{took}"
    elif limit == "more":
        most = max(point.workers for point in points)
        known = "with more it still gets faster" if most > 1 else "what two give was not tried"
        yield (
            f"try more workers than {most}: {known}, and the CPUs are not full: "
            f"whyidle loader --workers {most},{2 * most},{4 * most}"
        )
    elif limit == "unknown":
        yield "look at what workers share (a lock, a file handle, memory bandwidth): whyidle run --workers shows it"


def cold_pass(storage: Storage | None) -> Pass | None:
    """Return the pass that read from storage and not from the page cache; None if there was none."""
    if storage is None:
        return None
    if storage.cold is not None:
        return storage.cold
    first = storage.first
    if first is None or not first.disk_bytes:
        return None
    return first if first.disk_bytes >= FROM_DISK * max(first.read_bytes or 0, 1) else None


def _is_slow(storage: Storage | None, cold: Pass, ceiling: float | None, points: Sequence[Point]) -> bool:
    """Return whether a cold pass is slower than a warm one, and than the training with the best number of workers."""
    warm = storage.warm if storage is not None else None
    if cold.batch_s is None or warm is None or not warm.batch_s or cold.batch_s < SLOWER * warm.batch_s:
        return False
    fastest = max((point.batches_per_s or 0.0 for point in points), default=0.0)
    if ceiling is None or not fastest:
        return True
    return cold.batch_s / warm.batch_s / fastest > ceiling


def _small_files(storage: Storage, samples: int) -> bool:
    if not samples or not storage.files or not storage.files_bytes:
        return False
    opened = storage.opened / _batches(storage) / samples
    return opened >= MANY and storage.files_bytes / storage.files < SMALL_FILE


def _batches(storage: Storage) -> int:
    return max(storage.first.batches if storage.first else 1, 1)
