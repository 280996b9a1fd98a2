"""What a DataLoader gives alone, what the training takes without it, and what follows for its settings.

The JSON of `whyidle loader` is `Tried` written out; docs/loader.md describes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "failed", "timed out", "skipped"]
State: TypeAlias = Literal["looking", "measuring", "training", "done", "ended", "failed"]
# Of a loader that does not keep up. The CPUs are full; its workers wait for storage, or for something unknown that they
# share; more workers than were tried may help.
Limit: TypeAlias = Literal["cpu", "storage", "unknown", "more"]


@dataclass(frozen=True, slots=True)
class SeenLoader:
    """A DataLoader that the script iterated, with its settings; None is not known."""

    loader: int  # in order of first iteration
    where: str = ""  # it was made
    kind: str = ""  # its class
    dataset: str = ""
    batch_size: int | None = None
    num_workers: int | None = None
    prefetch_factor: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    start_method: str | None = None
    iterable: bool | None = None
    length: int | None = None  # batches of an epoch
    skipped: str = ""  # why it was not taken for the training's


@dataclass(frozen=True, slots=True)
class Point:
    """A loader alone, with so many workers."""

    workers: int
    prefetch: int
    status: Status
    why: str = ""  # of its status
    batches: int = 0  # that count, after the warm-up
    seconds: float = 0.0  # that these took
    first_batch_s: float | None = None  # from the making of the loader
    fetch_s: tuple[float, ...] = ()  # that whoever makes a batch took for each; a part of them, over all of the time
    receive_s: float | None = None  # for the training, of a batch that its workers have made
    repeated: bool = False  # the data set is iterable, and its workers give the same batches
    cpu_s: float | None = None  # of all processes, for these batches
    run_delay_s: float | None = None  # for which whoever makes batches was ready to run and had no CPU
    memory_bytes: int | None = None  # of the largest worker; what it shares counts in parts
    peak_memory_bytes: int | None = None  # resident, of the largest worker; what it shares counts in full
    batch_bytes: int | None = None
    batch_samples: int | None = None

    @property
    def batches_per_s(self) -> float | None:
        """Return the pace; None where nothing was measured."""
        return self.batches / self.seconds if self.status == "ok" and self.batches and self.seconds > 0 else None

    @property
    def cpus_busy(self) -> float | None:
        """Return the CPUs that it used, in the mean."""
        return self.cpu_s / self.seconds if self.cpu_s is not None and self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Pass:
    """Batches made one after the other, without workers, and what was read for them."""

    batches: int
    seconds: float
    read_bytes: int | None = None  # asked of the system; not what is mapped
    disk_bytes: int | None = None  # of it and of what is mapped, that came from storage
    dropped: int | None = None  # files that were taken out of the page cache before

    @property
    def batch_s(self) -> float | None:
        """Return the time of a batch, s."""
        return self.seconds / self.batches if self.batches else None


@dataclass(frozen=True, slots=True)
class Storage:
    """What the data set reads."""

    first: Pass | None = None  # as it was found
    cold: Pass | None = None  # the same, after its files were taken out of the page cache
    warm: Pass | None = None  # the same once more
    files: int = 0  # that were seen
    opened: int = 0  # times, during the first pass
    files_bytes: int | None = None  # of all of these
    example: str = ""  # one of them
    why: str = ""  # it was not measured


@dataclass(frozen=True, slots=True)
class Steps:
    """What the training takes from one batch to the next, s."""

    steps: int
    mean_s: float
    median_s: float
    optimizer_steps: int | None = None


@dataclass(frozen=True, slots=True)
class LoaderTrial:
    """Everything that was measured."""

    state: State
    why: str = ""
    loader: int | None = None  # that was tried
    loaders: tuple[SeenLoader, ...] = ()
    points: tuple[Point, ...] = ()
    storage: Storage | None = None
    now: Steps | None = None  # the training as it is
    cached: Steps | None = None  # with batches that it had
    cuda: bool = False  # the process used a GPU when its loader was iterated
    local_ranks: int = 1  # on this machine, each with a loader of its own
    available_memory_bytes: int | None = None
    free_shared_memory_bytes: int | None = None  # in /dev/shm

    @property
    def tried(self) -> SeenLoader | None:
        """Return the loader that was tried."""
        return next((one for one in self.loaders if one.loader == self.loader), None)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a step of the training takes with a loader of these settings."""

    workers: int
    prefetch: int
    step_s: float  # by the closed loop of loader and training


@dataclass(frozen=True, slots=True)
class Setting:
    """An argument of the DataLoader to change."""

    name: str
    now: str
    then: str
    why: str


@dataclass(frozen=True, slots=True)
class LoaderAdvice:
    """What to change, and what that is worth at most."""

    message: str  # one sentence, the answer first
    settings: tuple[Setting, ...] = ()
    why: str = ""  # of the number of workers
    limit: Limit | None = None  # what keeps more workers from being faster, where the training still waits
    other: tuple[str, ...] = ()  # changes that are none of the DataLoader's arguments
    expected: tuple[Expected, ...] = ()
    step_now_s: float | None = None
    step_then_s: float | None = None  # expected of the settings
    ceiling_s: float | None = None  # a step without loading
    warnings: tuple[str, ...] = ()

    @property
    def speedup_at_most(self) -> float | None:
        """Return what fixing the loader can give at most."""
        if self.step_now_s is None or not self.ceiling_s:
            return None
        return max(self.step_now_s / self.ceiling_s, 1.0)


@dataclass(frozen=True, slots=True)
class Tried:
    """The whole answer of `whyidle loader`."""

    command: tuple[str, ...]
    folder: str
    trial: LoaderTrial
    advice: LoaderAdvice
    cpus: float | None = None  # that the job may use
    memory_bytes: int | None = None  # of the machine
